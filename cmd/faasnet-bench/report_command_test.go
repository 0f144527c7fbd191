package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/results"
)

var update = flag.Bool("update", false, "write testdata/benchmarks.md anew")

func TestReport(t *testing.T) {
	in, err := loadResults("testdata/results")
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "benchmarks.md")
	unexplained, err := results.Write(in, out)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	golden := "testdata/benchmarks.md"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("go test ./cmd/faasnet-bench -run TestReport -update writes another document:\n%s", got)
	}
	if !slices.Contains(unexplained, "relay/cpu/new") {
		t.Errorf("unexplained: %q", unexplained)
	}
	var linked []string
	for part := range strings.SplitSeq(string(got), "](benchmarks/") {
		if name, _, ok := strings.Cut(part, ".svg)"); ok && !strings.Contains(name, "\n") {
			linked = append(linked, name+".svg")
		}
	}
	drawn, err := os.ReadDir(strings.TrimSuffix(out, ".md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range drawn {
		if !slices.Contains(linked, d.Name()) {
			t.Errorf("%s is drawn and not linked", d.Name())
		}
	}
	if len(linked) != len(drawn) || len(linked) < 5 {
		t.Errorf("linked are %v, drawn are %v", linked, drawn)
	}
}

func TestReportTakesNothingElseForResults(t *testing.T) {
	dir := t.TempDir()
	if _, err := loadResults(dir); err == nil {
		t.Error("a report of nothing")
	}
	if err := os.WriteFile(filepath.Join(dir, "x.json"), []byte(`{"a": 1}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := loadResults(dir); err == nil {
		t.Error("other JSON is taken for results")
	}
}

// What the document finds, by other means than its text.
func TestReportFindsLosses(t *testing.T) {
	p, err := os.ReadFile("testdata/results/relay.json")
	if err != nil {
		t.Fatal(err)
	}
	var r report[json.RawMessage, relaySummary]
	if err := json.Unmarshal(p, &r); err != nil {
		t.Fatal(err)
	}
	in, err := loadResults("testdata/results")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := results.Document(in, "x")
	_, losses, _ := strings.Cut(text, "## Where others are better")
	losses, _, _ = strings.Cut(losses, "\n## ")
	for _, s := range r.Summary[1:] {
		worse := r.Summary[0].CPUPerGiB > s.CPUPerGiB
		if got := strings.Contains(losses, "CPU of a GiB, "+s.Protocol); got != worse {
			t.Errorf("%s: told to be better: %v, is: %v", s.Protocol, got, worse)
		}
	}
	if strings.Contains(losses, "floor") {
		t.Error("the floor is taken for a rival")
	}
}

func TestPoolOfFiles(t *testing.T) {
	row := func(system string, rep int) burstRow {
		return burstRow{burstPlan: burstPlan{System: system, VMs: 8, Image: "b"}, Rep: rep}
	}
	var p pool
	p.add([]burstRow{row("faasnet", 0), row("soci", 0), row("faasnet", 1)})
	p.add([]burstRow{row("overlayfs", 0)})               // others of the same repetition
	p.add([]burstRow{row("faasnet", 0), row("soci", 0)}) // more repetitions
	var got []string
	for _, r := range p {
		got = append(got, fmt.Sprint(r.System, r.Rep))
	}
	if want := []string{"faasnet0", "soci0", "faasnet1", "overlayfs0", "faasnet2", "soci2"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
