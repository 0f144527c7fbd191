package main

import (
	"path/filepath"
	"testing"
)

// Rows of files are further repetitions; what was struck or read whole is no
// start. Ratios are of ours with the plain image.
func TestFigure14OfFiles(t *testing.T) {
	var files []string
	write := func(rows ...burstRow) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "rows.json")
		r, err := newReport[burstRow, burstSummary](file)
		if err == nil {
			err = r.addAll(rows, sumBursts)
		}
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	full := compared("faasnet", 0, 99, 1, 1)
	full.Full = true
	write(compared("faasnet", 0, 2, 1, 1), recordedRow(compared("faasnet", 0, 1, 1, 1)), full)
	write(compared("faasnet", 0, 4, 1, 1), burstOf(2, 0, 1, kill{who: "leaf", fault: "stop"}, 50, 50))
	out := filepath.Join(t.TempDir(), "out.json")
	sums, err := figure14From(files, out)
	if err != nil {
		t.Fatal(err)
	}
	if len(sums) != 2+len(paper14()) {
		t.Fatalf("got %+v", sums)
	}
	if s := sums[0]; s.Recorded || s.Reps != 2 || s.ReadyMedian != 3 || s.OverFaasnet != 1 {
		t.Errorf("got %+v", s)
	}
	if s := sums[1]; !s.Recorded || s.Reps != 1 || s.ReadyMedian != 1 || s.OverFaasnet != 1.0/3 {
		t.Errorf("got %+v", s)
	}
	if err := wellFormed(out); err != nil {
		t.Error(err)
	}
}
