package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/urfave/cli/v2"
)

// A command without a smoke run fails here, long before the smoke itself runs.
func TestSmokeRunsEveryCommand(t *testing.T) {
	if err := uncovered(newApp(), smokeRuns()); err != nil {
		t.Error(err)
	}
	more := newApp()
	more.Commands = append(more.Commands, &cli.Command{Name: "new", Subcommands: []*cli.Command{{Name: "thing"}}})
	if err := uncovered(more, smokeRuns()); err == nil {
		t.Error("a new command that is not run is not seen")
	}
	if err := uncovered(newApp(), append(smokeRuns(), smokeRun{command: "gone"})); err == nil {
		t.Error("a run of no command is not seen")
	}
}

func TestWellFormed(t *testing.T) {
	for text, good := range map[string]bool{
		`{"machine":{"kernel":"6"},"args":["x"],"rows":[{"a":1}],"summary":[{"a":1}]}`: true,
		`{"machine":{"kernel":"6"},"args":["x"],"rows":[],"summary":[]}`:               false,
		`{"args":["x"],"rows":[{"a":1}],"summary":[{"a":1}]}`:                          false,
		`{"machine":`: false,
		`{"machine":{"kernel":"6"},"args":["x","--recorded"],"rows":[{"a":1}],"summary":[{"a":1}]}`:                                     false,
		`{"machine":{"kernel":"6"},"args":["x","--recorded"],"rows":[{"recorded":true}],"summary":[{"recorded":true}]}`:                 false,
		`{"machine":{"kernel":"6"},"args":["x","--recorded"],"rows":[{"a":1},{"recorded":true}],"summary":[{"a":1},{"recorded":true}]}`: true,
	} {
		file := filepath.Join(t.TempDir(), "x.json")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := wellFormed(file); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}
