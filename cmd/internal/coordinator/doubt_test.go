package coordinator

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/faasnet/faasnet/treeclient/treepb"
)

func (f *fleet) quiet(m *machine, function, vm string) {
	f.hear(m, &treepb.FromVM{Message: &treepb.FromVM_Quiet{Quiet: &treepb.Quiet{Function: function, Vm: vm}}})
}

// A VM that its neighbour misses for less than half a second is gone at once if its heartbeats
// stay away, too.
func TestQuietVMThatWeMissIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, vms := seated(t, 7)
		f.pass(time.Second)
		f.pass(450*time.Millisecond, "vm1")
		f.check(image, all(vms))
		f.quiet(vms[3], image, "vm1")
		f.check(image, all(vms, 1))
		if vms[1].ended == nil {
			t.Error("its stream has not ended")
		}
		if got := vms[3].upstream(image); got == "vm1" {
			t.Error("who has reported it still reads from it")
		}
		if n := testutil.ToFloat64(f.c.metrics.reports.WithLabelValues(quiet)); n != 1 {
			t.Errorf("%v reports are counted", n)
		}
		f.attend("vm1") // it lives after all
		f.join(vms[1], image, 10)
		f.check(image, all(vms))
	})
}

// Of a VM that is heard nothing is believed, however often it is said, and nothing
// is remembered; nor of strangers.
func TestQuietVMThatIsHeardStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, vms := seated(t, 7)
		f.pass(time.Second)
		before := f.c.groves[Key{DefaultTenant, image}].epoch()
		for range 100 {
			f.quiet(vms[3], image, "vm1")
			f.quiet(vms[3], image, "vm6")
			f.quiet(vms[3], "other", "vm1")
			f.quiet(vms[3], image, "nobody")
		}
		f.pass(300*time.Millisecond, "vm1", "vm6") // less than a heartbeat and a quarter
		f.quiet(vms[3], image, "vm1")
		f.pass(150*time.Millisecond, "vm6")
		f.quiet(vms[3], image, "vm6") // which it has nothing to do with
		if now := f.c.groves[Key{DefaultTenant, image}].epoch(); now != before {
			t.Error("the tree has changed")
		}
		if b := vms[1].session.reports; b != (blame{}) {
			t.Errorf("it is blamed: %+v", b)
		}
		if n := vms[3].session.credit.TokensAt(time.Now()); n < credit {
			t.Errorf("%v of the credit is left", n)
		}
	})
}

// A coordinator that was starved for less than a heartbeat has not missed anybody:
// what was said meanwhile is still to be heard.
func TestQuietIsNothingWhenWeDidNotListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, vms := seated(t, 7)
		f.pass(time.Second)
		time.Sleep(450 * time.Millisecond)
		f.quiet(vms[3], image, "vm1")
		f.check(image, all(vms))
	})
}
