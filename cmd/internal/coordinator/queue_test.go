package coordinator

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/faasnet/faasnet/treeclient/treepb"
)

// listener is a VM that counts what it is told.
type listener struct {
	*session
	told int
	last *treepb.Assignment
}

func (f *fleet) listen(name string) *listener {
	f.t.Helper()
	s, err := f.c.greet(&treepb.Hello{Protocol: 1, Vm: name, Address: "10.0.0.1:7000"}, "", func(error) {})
	if err != nil {
		f.t.Fatal(err)
	}
	return &listener{session: s}
}

// hears takes what there is to say.
func (l *listener) hears(c *Coordinator) {
	for {
		select {
		case <-l.wake:
			news, _ := c.news(l.session)
			for _, m := range news {
				l.told, l.last = l.told+1, m.GetAssignment()
			}
		default:
			return
		}
	}
}

// TestBurstHearsFirstPlacesFirst has 500 VMs join at the pace of a coordinator that
// does nothing else. Each must have its first place at once, and the last one soon.
func TestBurstHearsFirstPlacesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Options{Heartbeat: time.Hour})
		var vms []*listener
		for i := range 500 {
			vms = append(vms, f.listen(fmt.Sprint("vm", i)))
		}
		all := func() (told int) {
			for _, l := range vms {
				l.hears(f.c)
				told += l.told
			}
			return told
		}
		join := &treepb.FromVM{Message: &treepb.FromVM_Join{Join: &treepb.Join{Function: image}}}
		for i, l := range vms {
			f.c.hear(t.Context(), l.session, join)
			if l.hears(f.c); l.told != 1 {
				t.Fatalf("vm%d was told %d places when it joined", i, l.told)
			}
			time.Sleep(50 * time.Microsecond)
			if i%20 == 0 {
				synctest.Wait()
				all()
			}
		}
		time.Sleep(holdTime)
		synctest.Wait()
		told := all()
		t.Logf("%.2f places told a VM", float64(told)/float64(len(vms)))
		if told > 3*len(vms) {
			t.Errorf("%d VMs were told %d places, want each 3 at most: others hear of several changes at once", len(vms), told)
		}
		g := f.c.groves[Key{DefaultTenant, image}]
		for _, l := range vms {
			if !knows(l.last, g, l.vm) {
				t.Errorf("%s does not know its place", l.vm)
			}
		}
	})
}

// TestLongBurstsHoldNobodyLong has VMs join, and some leave, so that the burst is
// never over. Nobody may have an old place for longer than holdTime, and who hears
// that another one leaves hears it later, too.
func TestLongBurstsHoldNobodyLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Options{Heartbeat: time.Hour})
		join := &treepb.FromVM{Message: &treepb.FromVM_Join{Join: &treepb.Join{Function: image}}}
		leave := &treepb.FromVM{Message: &treepb.FromVM_Leave{Leave: &treepb.Leave{Function: image}}}
		var vms []*listener
		all := func() (told int) {
			for _, l := range vms {
				l.hears(f.c)
				told += l.told
			}
			return told
		}
		stale := map[*listener]time.Time{} // since when its place is an old one
		for i := range 200 {
			l := f.listen(fmt.Sprint("vm", i))
			vms = append(vms, l)
			f.c.hear(t.Context(), l.session, join)
			before := all()
			if i > 2*burstJoins && i%10 == 0 {
				gone := vms[0]
				f.c.hear(t.Context(), gone.session, leave)
				delete(stale, gone)
				if vms = vms[1:]; all() != before-gone.told {
					t.Errorf("others were told at once that %s leaves", gone.vm)
				}
			}
			g := f.c.groves[Key{DefaultTenant, image}]
			for _, l := range vms {
				since, old := stale[l]
				switch {
				case knows(l.last, g, l.vm):
					delete(stale, l)
				case !old:
					stale[l] = time.Now()
				case time.Since(since) > holdTime:
					t.Fatalf("%s has not heard of its place for %v", l.vm, time.Since(since))
				}
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
	})
}

// TestDeathsDoNotWait has a VM vanish in the midst of a burst: those below it must
// hear of it at once.
func TestDeathsDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Options{Heartbeat: time.Hour})
		var vms []*listener
		join := &treepb.FromVM{Message: &treepb.FromVM_Join{Join: &treepb.Join{Function: image}}}
		for i := range 100 {
			l := f.listen(fmt.Sprint("vm", i))
			f.c.hear(t.Context(), l.session, join)
			l.hears(f.c)
			vms = append(vms, l)
		}
		g := f.c.groves[Key{DefaultTenant, image}]
		below := g.tree.Downstream("vm0", 0)
		if len(below) == 0 {
			t.Fatal("nobody reads from vm0")
		}
		for _, l := range vms { // what those who joined first were told at once
			l.hears(f.c)
		}
		f.c.lost(vms[0].session)
		for _, l := range vms[1:] {
			l.hears(f.c)
			for _, vm := range below {
				if l.vm == vm && !knows(l.last, g, vm) {
					t.Errorf("%s has not heard that its upstream is gone", vm)
				}
			}
		}
	})
}
