package treeclient_test

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/faasnet/faasnet/treeclient"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

// withNeighbours runs a test with two VMs of one tree, a above b. away takes the
// coordinator away for a while, with all that it knows.
func withNeighbours(t *testing.T, test func(w *world, heard *said, b *vm, away func(time.Duration))) {
	t.Helper()
	inBubble(t, func(w *world) {
		var heard said
		c := w.coordinator()
		c.Said = heard.hear
		stop := w.serve(home, c)
		a, b := w.vm("a"), w.vm("b")
		a.Join(w.t.Context(), image)
		b.Join(w.t.Context(), image)
		test(w, &heard, b, func(d time.Duration) {
			stop()
			time.Sleep(d)
			stop = w.serve(home, c)
		})
	})
}

func TestCO07_UnreachableParentIsReportedOnce(t *testing.T) {
	withNeighbours(t, func(w *world, heard *said, b *vm, _ func(time.Duration)) {
		t := w.t
		for range 10 {
			b.Report(image, 0, "a", treeclient.Unreachable, time.Now())
		}
		b.Report("no such function", 0, "a", treeclient.Unreachable, time.Now())
		synctest.Wait()
		want := &treepb.Report{Function: image, Vm: "a", Fault: treepb.Report_FAULT_UNREACHABLE}
		if got := reports(heard); len(got) != 1 || !proto.Equal(got[0], want) {
			t.Fatalf("reports: %v", got)
		}
		w.vm("c").Join(t.Context(), image) // a new epoch
		synctest.Wait()
		b.Report(image, 0, "a", treeclient.Silent, time.Now())
		synctest.Wait()
		if got := reports(heard); len(got) != 2 {
			t.Errorf("reports in the next epoch: %v", got)
		}
	})
}

// What is said of a neighbour does not hide what is found out later.
func TestEachFaultIsReportedOnceAnEpoch(t *testing.T) {
	withNeighbours(t, func(w *world, heard *said, b *vm, _ func(time.Duration)) {
		t := w.t
		faults := []treeclient.Fault{treeclient.Slow, treeclient.Silent, treeclient.Corrupt, treeclient.Unreachable}
		for range 3 {
			for _, f := range faults {
				b.Report(image, 0, "a", f, time.Now())
			}
			b.Report(image, 0, "c", treeclient.Slow, time.Now())
		}
		synctest.Wait()
		got := map[string]int{}
		for _, r := range reports(heard) {
			got[r.Vm+" "+r.Fault.String()]++
		}
		want := map[string]int{"a FAULT_SLOW": 1, "a FAULT_SILENT": 1, "a FAULT_CORRUPT": 1, "a FAULT_UNREACHABLE": 1, "c FAULT_SLOW": 1}
		if !maps.Equal(got, want) {
			t.Errorf("reports %v, want %v", got, want)
		}
	})
}

// That a neighbour is quiet is said each time, and does not hide that it is silent.
func TestQuietIsSaidEachTime(t *testing.T) {
	withNeighbours(t, func(w *world, heard *said, b *vm, _ func(time.Duration)) {
		t := w.t
		for range 3 {
			b.Report(image, 0, "a", treeclient.Quiet, time.Now())
			b.Report(image, 0, "a", treeclient.Silent, time.Now())
		}
		b.Report("no such function", 0, "a", treeclient.Quiet, time.Now())
		synctest.Wait()
		want := &treepb.Quiet{Function: image, Vm: "a"}
		if got := pick(heard, (*treepb.FromVM).GetQuiet); len(got) != 3 || !proto.Equal(got[0], want) {
			t.Errorf("quiet: %v", got)
		}
		if got := reports(heard); len(got) != 1 {
			t.Errorf("reports: %v", got)
		}
	})
}

// A VM that was cut off does not blame others for what it saw, or did not see,
// meanwhile; what begins after it is back counts, in the same epoch too.
func TestWhoWasCutOffBlamesNobody(t *testing.T) {
	withNeighbours(t, func(w *world, heard *said, b *vm, away func(time.Duration)) {
		t := w.t
		dialed := time.Now()
		away(time.Second)
		time.Sleep(time.Minute)
		b.Report(image, 0, "a", treeclient.Unreachable, dialed)
		synctest.Wait()
		if got := reports(heard); len(got) != 0 {
			t.Errorf("reported what began before the VM was cut off: %v", got)
		}
		b.Report(image, 0, "a", treeclient.Unreachable, time.Now())
		synctest.Wait()
		if got := reports(heard); len(got) != 1 {
			t.Errorf("reports: %v", got)
		}
	})
}
