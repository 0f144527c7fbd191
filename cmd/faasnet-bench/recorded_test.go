package main

import (
	"slices"
	"strings"
	"testing"
)

// A recorded image is a plan of its own beside the plain one, or alone; systems
// that are not ours have none.
func TestPlanOfRecordedImages(t *testing.T) {
	for args, want := range map[string]string{
		"--systems overlayfs,faasnet":                                               "overlayfs; faasnet, striped",
		"--systems overlayfs,faasnet,faasnet-notree --recorded":                     "overlayfs; faasnet, striped; faasnet, recorded, striped; faasnet-notree; faasnet-notree, recorded",
		"--systems faasnet --recorded-only":                                         "faasnet, recorded, striped",
		"--systems faasnet --recorded --recorded-only --stripes 1 --stripes 2":      "faasnet, recorded, complete; faasnet, recorded, striped",
		"--systems floor,faasnet --recorded --kill none --kill root:kill@1s":        "floor; faasnet, striped; faasnet, recorded, striped; floor, root:kill@1s; faasnet, striped, root:kill@1s; faasnet, recorded, striped, root:kill@1s",
		"--systems faasnet --recorded --tree off --systems faasnet-notree --full=1": "faasnet-notree; faasnet-notree, recorded",
	} {
		plan, err := plansOf(t, strings.Fields(args+" --vms 3 --rate 10mbit")...)
		if err != nil {
			t.Errorf("%s: %v", args, err)
		}
		var got []string
		for _, p := range plan {
			got = append(got, strings.TrimPrefix(p.String(), "3 VMs, "))
			if tag := p.system().Tag; strings.HasSuffix(tag, "-recorded") != p.Recorded {
				t.Errorf("%v pulls %s", p, tag)
			}
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("%s: got %q, want %q", args, got, want)
		}
		if anyRecorded(plan) != strings.Contains(want, "recorded") {
			t.Errorf("%s: a recorded conversion is wanted: %v", args, anyRecorded(plan))
		}
	}
	plan, err := comparisonPlan(t, "--systems", "soci,faasnet,floor", "--recorded")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range plan {
		got = append(got, p.called())
	}
	if want := []string{"soci", "faasnet", "faasnet, recorded", "floor"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func recordedRow(r burstRow) burstRow {
	r.Recorded = true
	return r
}

// What was measured with recorded images is summed up and compared apart.
func TestRecordedRowsStayApart(t *testing.T) {
	rows := []burstRow{
		compared("stargz-nobg", 0, 12, 600, 9), compared("faasnet", 0, 4, 100, 3), recordedRow(compared("faasnet", 0, 2, 60, 3)),
		compared("faasnet", 1, 4, 100, 3), recordedRow(compared("faasnet", 1, 3, 60, 3)),
	}
	sums := sumComparisons(rows)
	if len(sums) != 3 || sums[1].Recorded || !sums[2].Recorded || sums[1].Reps != 2 || sums[2].Reps != 2 {
		t.Fatalf("got %+v", sums)
	}
	if s := sums[0]; s.ReadyOver != 3 || s.ReadyOverRecorded != 6 || s.RegistryOver != 6 || s.RegistryOverRecorded != 10 || s.CPUOver != 3 || s.CPUOverRecorded != 6 {
		t.Errorf("got %+v", s)
	}
	if s := sums[2]; s.ReadyMedian != 2.5 || s.ReadyOverRecorded != 1 || s.RegistryBytes != 60 {
		t.Errorf("got %+v", s)
	}
	figure := sum14(rows)
	if figure[1].Recorded || !figure[2].Recorded || figure[0].OverFaasnet != 3 || figure[2].OverFaasnet != 2.5/4 {
		t.Errorf("got %+v", figure[:3])
	}
	starts := sumStarts([]startRow{{System: "overlayfs", Ready: 10}, {System: "faasnet", Ready: 5}, {System: "faasnet", Recorded: true, Ready: 2}})
	if len(starts) != 3 || starts[1].Speedup != 2 || starts[2].Speedup != 5 || !starts[2].Recorded || starts[2].System != "faasnet" {
		t.Errorf("got %+v", starts)
	}
	if b := (&bursts{skip: tooSlow}); b.due(rows[:2], rows[1].burstPlan, 0) || !b.due(rows[:2], rows[2].burstPlan, 0) {
		t.Error("a plain row stands for a recorded one")
	}
}

func TestFiguresOfRecordedImages(t *testing.T) {
	var rows15 []figure15Row
	var rows18 []figure18Row
	for _, recorded := range []bool{false, true} {
		for rep, ready := range []float64{4, 6} {
			if recorded {
				ready /= 2
			}
			rows15 = append(rows15, figure15Row{System: "faasnet", Recorded: recorded, Rep: rep, VM: "a", Ready: ready}, figure15Row{System: "faasnet", Recorded: recorded, Rep: rep, VM: "b", Ready: ready + 1})
			rows18 = append(rows18, figure18Row{System: "faasnet", Recorded: recorded, VMs: 2, Rep: rep, Ready: ready}, figure18Row{System: "faasnet", Recorded: recorded, VMs: 1, Rep: rep, Ready: 3 * ready})
		}
	}
	if s := sum15(rows15); len(s) != 2+len(paper15) || s[0].Recorded || s[0].First != 5 || !s[1].Recorded || s[1].First != 2.5 || s[1].Last != 3.5 || s[1].Span != 1 {
		t.Errorf("figure 15: %+v", s)
	}
	s := sum18(rows18)
	if len(s) != 4+len(paper18) {
		t.Fatalf("figure 18: %+v", s)
	}
	for i, want := range []figure18Sum{{VMs: 2, ReadyMedian: 5, OverMost: 1}, {VMs: 1, ReadyMedian: 15, OverMost: 3}, {Recorded: true, VMs: 2, ReadyMedian: 2.5, OverMost: 1}, {Recorded: true, VMs: 1, ReadyMedian: 7.5, OverMost: 3}} {
		if got := s[i]; got.System != "faasnet" || got.Recorded != want.Recorded || got.VMs != want.VMs || got.ReadyMedian != want.ReadyMedian || got.OverMost != want.OverMost {
			t.Errorf("figure 18: got %+v, want %+v", got, want)
		}
	}
}

func TestFigure20OfRecordedImages(t *testing.T) {
	row := func(block int, recorded bool, bytes int64) figure20Row {
		return figure20Row{System: "faasnet-notree", Recorded: recorded, Image: "b", Block: block, RegistryBytes: bytes, Read: 1, Fetched: 1}
	}
	pull := figure20Row{System: "overlayfs", Image: "b", RegistryBytes: 100}
	sums := sum20([]figure20Row{pull, row(64, false, 20), row(64, true, 10), row(512, false, 30), row(512, true, 15)})
	for i, want := range []float64{1, 0.2, 0.1, 0.3, 0.15} {
		if sums[i].OfPull != want || sums[i].Recorded != (i == 2 || i == 4) {
			t.Errorf("%d: got %+v, want %v", i, sums[i], want)
		}
	}
}

// What failed or was struck says nothing of how lazy a system is.
func TestOnlyStartsTellOfFullPulls(t *testing.T) {
	r := burstRow{ImageBytes: 100, Struck: "struck", PerVM: []burstVM{{VM: "failed", Error: "no route"}, {VM: "struck"}, {VM: "started", FUSEMounts: 3}}}
	if why := r.fallback(); why != "" {
		t.Error(why)
	}
}

// A lazy system that pulls all of the image is told apart from one that does not.
func TestFullPullsInTruth(t *testing.T) {
	for _, c := range []struct {
		received, image int64
		mounts          []int
		want            string
	}{
		{50, 100, []int{3, 3}, ""},
		{94, 100, []int{1, 3}, ""},
		{96, 100, []int{3, 3}, "a VM was sent 96 % of the image's layers"},
		{50, 100, []int{3, 0}, "nothing is mounted lazily on b"},
		{100, 0, []int{0, 0}, ""}, // not lazy: nobody has looked
	} {
		r := burstRow{ImageBytes: c.image}
		for i, n := range c.mounts {
			r.PerVM = append(r.PerVM, burstVM{VM: string(rune('a' + i)), Ready: 1, ReceivedBytes: c.received, FUSEMounts: n})
		}
		r.total()
		if r.Fallback != c.want {
			t.Errorf("%+v: %q", c, r.Fallback)
		}
		sum := sumComparisons([]burstRow{{PerVM: []burstVM{{}}}, r})[0]
		var printed strings.Builder
		if err := printComparisons(&printed, []compareSummary{sum}); err != nil || sum.Fallback != c.want || strings.Contains(printed.String(), "full pull: "+c.want) != (c.want != "") {
			t.Errorf("%+v: %q, %v, printed %s", c, sum.Fallback, err, printed.String())
		}
	}
}
