package main

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

func comparisonPlan(t *testing.T, args ...string) ([]burstPlan, error) {
	t.Helper()
	var plan []burstPlan
	command := compareCommand()
	command.Action = func(c *cli.Context) error {
		b, err := comparisonOf(c)
		if err == nil {
			plan = b.plan
		}
		return err
	}
	app := &cli.App{Commands: []*cli.Command{command}, ExitErrHandler: func(*cli.Context, error) {}}
	return plan, app.Run(append([]string{"bench", "compare"}, args...))
}

func TestPlanOfAComparison(t *testing.T) {
	plan, err := comparisonPlan(t, "--vms", "1", "--vms", "4", "--rate", "25mbit", "--systems", "stargz-nobg,faasnet,floor", "--registry-rate", "50mbit")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range plan {
		got = append(got, p.String())
		if p.RegistryRate != "50mbit" || p.Image != "b" || p.Rate != "25mbit" {
			t.Errorf("got %+v", p)
		}
	}
	want := []string{"1 VMs, stargz-nobg", "1 VMs, faasnet, striped", "1 VMs, floor", "4 VMs, stargz-nobg", "4 VMs, faasnet, striped", "4 VMs, floor"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	all, err := comparisonPlan(t)
	if err != nil {
		t.Fatal(err)
	}
	if names := namesOf(all); !slices.Equal(names, strings.Fields("overlayfs erofs stargz stargz-nobg soci faasnet-notree faasnet floor")) {
		t.Errorf("by default %q", names)
	}
	if _, err := comparisonPlan(t, "--systems", "kraken"); err == nil || !strings.Contains(err.Error(), "kraken") {
		t.Errorf("an unknown system: %v", err)
	}
}

func namesOf(plan []burstPlan) (names []string) {
	for _, p := range plan {
		names = append(names, p.System)
	}
	return names
}

func compared(system string, rep int, ready float64, registry, disk int64) burstRow {
	r := burstRow{burstPlan: burstPlan{System: system, VMs: 2}, Rep: rep, RegistryBytes: registry}
	for range 2 {
		r.PerVM = append(r.PerVM, burstVM{VM: "vm", Ready: ready, CPU: ready, ReceivedBytes: registry / 2, PeakMemory: 7, Disk: disk})
	}
	r.total()
	return r
}

// A system that was measured once is compared with ours of that repetition.
func TestComparisonsAreSummedUp(t *testing.T) {
	sums := sumComparisons([]burstRow{
		compared("overlayfs", 0, 20, 800, 9), compared("faasnet", 0, 2, 100, 3), compared("floor", 0, 1, 0, 9),
		compared("faasnet", 1, 4, 200, 3), compared("floor", 1, 1, 0, 9),
	})
	if len(sums) != 3 {
		t.Fatalf("got %+v", sums)
	}
	if s := sums[0]; s.Reps != 1 || s.ReadyOver != 10 || s.RegistryOver != 8 || s.CPUOver != 10 || s.ReceivedBytes != 400 || s.PeakMemory != 7 || s.Disk != 9 {
		t.Errorf("got %+v", s)
	}
	if s := sums[1]; s.Reps != 2 || s.ReadyOver != 1 || s.ReadyMedian != 3 || s.Disk != 3 {
		t.Errorf("got %+v", s)
	}
	if s := sums[2]; s.ReadyOver != 0.375 || s.RegistryOver != 0 {
		t.Errorf("got %+v", s)
	}
	p, err := json.Marshal(sums[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range strings.Fields("system vms rate image ready_median_s ready_p95_s ready_max_s registry_bytes peer_bytes cpu_s ready_over_faasnet") {
		if !strings.Contains(string(p), `"`+field+`":`) {
			t.Errorf("the summary has no %s", field)
		}
	}
	var table strings.Builder
	if err := printComparisons(&table, sums); err != nil || !strings.Contains(table.String(), "10.00x") {
		t.Errorf("printed %v:\n%s", err, table.String())
	}
}

// Only what was measured in the same burst says that a system is too slow.
func TestTooSlowIsMeasuredOnce(t *testing.T) {
	rows := []burstRow{compared("overlayfs", 0, 20, 1, 1), compared("stargz", 0, 9, 1, 1), compared("faasnet", 0, 2, 1, 1), compared("floor", 0, 0.1, 1, 1)}
	for system, want := range map[string]bool{"overlayfs": true, "stargz": false, "faasnet": false, "floor": false, "soci": false} {
		if got := tooSlow(rows, burstPlan{System: system, VMs: 2}); got != want {
			t.Errorf("%s: %v", system, got)
		}
	}
	if tooSlow(rows, burstPlan{System: "overlayfs", VMs: 3}) {
		t.Error("with other VMs nothing was measured")
	}
	rows = []burstRow{compared("faasnet-notree", 0, 20, 1, 1), recordedRow(compared("faasnet-notree", 0, 2, 1, 1))}
	if !tooSlow(rows, rows[0].burstPlan) || tooSlow(rows, rows[1].burstPlan) {
		t.Error("a plain row stands for a recorded one")
	}
}

// What a file holds is not measured again, and what was too slow in it neither.
func TestComparisonGoesOn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rows.json")
	first, err := newReport[burstRow, compareSummary](file)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []burstRow{compared("overlayfs", 0, 20, 1, 1), compared("faasnet", 0, 2, 1, 1)} {
		if err := first.add(row, sumComparisons); err != nil {
			t.Fatal(err)
		}
	}
	again, err := newReport[burstRow, compareSummary](file)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.resume(); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again.Rows, first.Rows) {
		t.Errorf("got %+v, want %+v", again.Rows, first.Rows)
	}
	b := bursts{plan: []burstPlan{{System: "overlayfs", VMs: 2}, {System: "faasnet", VMs: 2}}, skip: tooSlow}
	var left []string
	for rep := range 2 {
		for _, p := range b.plan {
			if b.due(again.Rows, p, rep) {
				left = append(left, p.System)
			}
		}
	}
	if !slices.Equal(left, []string{"faasnet"}) {
		t.Errorf("%q are still to be measured", left)
	}
}
