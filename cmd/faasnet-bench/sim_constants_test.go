package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/cmd/internal/sim"
)

// reading gives f the context of a command that computes with constants.
func reading(t *testing.T, f func(*cli.Context), args ...string) {
	t.Helper()
	app := &cli.App{Flags: constantsFlags(), Action: func(c *cli.Context) error { f(c); return nil }}
	if err := app.Run(append([]string{"bench"}, args...)); err != nil {
		t.Fatal(err)
	}
}

func keptHere(t *testing.T) (k constants, file string) {
	t.Helper()
	m, err := thisMachine()
	if err != nil {
		t.Fatal(err)
	}
	m.Revision = "earlier"
	k = constants{Machine: m, Costs: sim.Costs{Send: 1}, Functions: map[string]function{"b": {Reps: 3}, "c": {Reps: 3}}}
	file = filepath.Join(t.TempDir(), "kept.json")
	if err := writeJSON(file, k); err != nil {
		t.Fatal(err)
	}
	return k, file
}

// What is kept of this machine serves, whatever program measured it. With --again
// it is forgotten once: what is kept then is of this run, of one image as of the next.
func TestKeptConstants(t *testing.T) {
	k, file := keptHere(t)
	functions := func(c *cli.Context) int {
		got, err := keptConstants(c, file)
		if err != nil {
			t.Fatal(err)
		}
		return len(got.Functions)
	}
	reading(t, func(c *cli.Context) {
		if n := functions(c); n != 2 {
			t.Errorf("%d functions of this machine", n)
		}
	})
	reading(t, func(c *cli.Context) {
		if first, second := functions(c), functions(c); first != 0 || second != 2 {
			t.Errorf("with --again %d functions, and then %d", first, second)
		}
	}, "--again")
	k.Machine.CPUs++
	if err := writeJSON(file, k); err != nil {
		t.Fatal(err)
	}
	reading(t, func(c *cli.Context) {
		if n := functions(c); n != 0 {
			t.Errorf("%d functions of another machine", n)
		}
		if got, err := keptConstants(c, filepath.Join(t.TempDir(), "none")); err != nil || got.Functions != nil {
			t.Errorf("where none are kept: %+v, %v", got, err)
		}
		if os.WriteFile(file, []byte("{"), 0o644) != nil {
			t.Fatal("not written")
		}
		if _, err := keptConstants(c, file); err == nil {
			t.Error("half a file is taken")
		}
	})
}

// A place that cannot keep them is refused before minutes of measuring.
func TestConstantsNeedAPlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var k constants
	if err := k.measure(t.Context(), "a", filepath.Join(file, "kept.json")); err == nil || k.Costs != (sim.Costs{}) {
		t.Errorf("%v, measured %+v", err, k.Costs)
	}
}

// --json has each image with the machine and the program that measured it.
func TestConstantsAsResults(t *testing.T) {
	k, _ := keptHere(t)
	file := filepath.Join(t.TempDir(), "out.json")
	out, err := newReport[constantsRow, constantsRow](file)
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range []string{"b", "c"} {
		if err := k.report(image, out); err != nil {
			t.Fatal(err)
		}
	}
	if err := wellFormed(file); err != nil {
		t.Error(err)
	}
	var got report[constantsRow, constantsRow]
	if err := readJSON(file, &got); err != nil {
		t.Fatal(err)
	}
	want := []constantsRow{{"b", k.Costs, k.Functions["b"]}, {"c", k.Costs, k.Functions["c"]}}
	if got.Machine.Revision != "earlier" || !slices.Equal(got.Rows, want) || !slices.Equal(got.Summary, want) {
		t.Errorf("got %+v", got)
	}
}
