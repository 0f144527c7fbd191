package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

const smokeName = "smoke"

// smokeRun is the smallest run of a command that shows that it works. JSON
// tells that it writes results, PLOT that it draws.
type smokeRun struct {
	command string
	args    string
	json    bool
	plot    bool
}

// smokeRuns are one or more for each command.
func smokeRuns() []smokeRun {
	return []smokeRun{
		{command: "images", args: "a"},
		{command: "convert", args: "--image a --reps 1", json: true},
		{command: "start", args: "--image a --reps 1 --recorded", json: true},
		{command: "burst", args: "--image a --vms 2 --reps 1 --recorded --stripes 1 --stripes 2 --draw", json: true},
		{command: "burst", args: "--image a --vms 2 --reps 1 --systems faasnet --full", json: true},
		{command: "compare", args: "--image a --vms 2 --reps 1 --recorded --systems overlayfs,erofs,faasnet,faasnet-notree,floor", json: true}, // those that are here without building them
		{command: "demo", args: "--image a --vms 2"},
		{command: "relay", args: "--size 8 --reps 1", json: true},
		{command: "micro", args: "--quick block tree relay", json: true}, // files and memory need image b, which takes minutes to build
		{command: "sim constants", args: "--image a --constants DIR/kept.json", json: true},
		{command: "sim scaling", args: "--quick --image a --constants DIR/kept.json", json: true, plot: true},
		{command: "sim timeline", args: "--quick --image a --constants DIR/kept.json", json: true, plot: true},
		{command: "sim many", args: "--quick --image a --constants DIR/kept.json", json: true, plot: true},
		{command: "sim trace", args: "--quick --image a --constants DIR/kept.json", json: true, plot: true},
		{command: "sim calibrate", args: "--real DIR/burst.json --constants DIR/kept.json", json: true},
		{command: "figure 14", args: "--quick --recorded", json: true, plot: true},
		{command: "figure 15", args: "--quick --recorded", json: true, plot: true},
		{command: "figure 16", args: "--quick", json: true, plot: true},
		{command: "figure 18", args: "--quick --recorded", json: true, plot: true},
		{command: "figure 20", args: "--quick --recorded", json: true, plot: true},
	}
}

func smokeCommand() *cli.Command {
	return &cli.Command{
		Name:  smokeName,
		Usage: "run every command with as little as shows that it works",
		Description: `Fails where a command fails, where what it writes is no JSON of results, and where a command is not
among those that it runs. Says nothing of times: they mean nothing.`,
		Action: func(c *cli.Context) error {
			if err := uncovered(c.App, smokeRuns()); err != nil {
				return err
			}
			return smoke(c.Context, c.App.Writer, smokeRuns())
		},
	}
}

// uncovered is an error where a command has no run, or a run no command.
func uncovered(app *cli.App, runs []smokeRun) error {
	var errs []error
	commands := map[string]bool{smokeName: true, "report": true} // it reads what the others wrote
	var walk func(prefix string, all []*cli.Command)
	walk = func(prefix string, all []*cli.Command) {
		for _, c := range all {
			name := strings.TrimSpace(prefix + " " + c.Name)
			switch {
			case c.Hidden || c.Name == "help":
			case len(c.Subcommands) > 0:
				walk(name, c.Subcommands)
			default:
				if _, known := commands[name]; !known {
					commands[name] = false
				}
			}
		}
	}
	walk("", app.Commands)
	for _, r := range runs {
		if _, known := commands[r.command]; !known {
			errs = append(errs, fmt.Errorf("smoke runs %q, which is no command", r.command))
		}
		commands[r.command] = true
	}
	for name, covered := range commands {
		if !covered {
			errs = append(errs, fmt.Errorf("smoke does not run %q: add it to smokeRuns", name))
		}
	}
	return errors.Join(errs...)
}

func smoke(ctx context.Context, w io.Writer, runs []smokeRun) (err error) {
	dir, err := os.MkdirTemp("", "faasnet-smoke")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var failed []error
	try := func(name string, f func() error) {
		begin := time.Now()
		result := "works"
		if err := f(); err != nil {
			result = "fails"
			failed = append(failed, fmt.Errorf("%s: %w", name, err))
		}
		fmt.Fprintf(w, "%-12s %s, %.0f s\n", name, result, time.Since(begin).Seconds())
	}
	for i, r := range runs {
		try(r.command, func() error { return r.run(ctx, dir, i) })
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	try("report", func() error {
		out := filepath.Join(dir, "benchmarks.md")
		if err := self(ctx, "report", "--results", dir, "--out", out); err != nil {
			return err
		}
		_, err := os.Stat(out)
		return err
	})
	return errors.Join(failed...)
}

// run runs the command and looks at what it wrote.
func (r smokeRun) run(ctx context.Context, dir string, i int) error {
	args := append(strings.Fields(r.command), strings.Fields(strings.ReplaceAll(r.args, "DIR", dir))...)
	name := strings.ReplaceAll(r.command, " ", "-")
	if _, err := os.Stat(filepath.Join(dir, name+".json")); err == nil {
		name += "-" + strconv.Itoa(i)
	}
	file, plots := filepath.Join(dir, name+".json"), filepath.Join(dir, name)
	at := len(strings.Fields(r.command)) // flags come before arguments
	if r.plot {
		args = append(args[:at:at], append([]string{"--plot", plots}, args[at:]...)...)
	}
	if r.json {
		args = append(args[:at:at], append([]string{"--json", file}, args[at:]...)...)
	}
	if err := self(ctx, args...); err != nil {
		return err
	}
	if r.plot {
		for _, ext := range []string{"svg", "png"} {
			if drawn, err := filepath.Glob(filepath.Join(plots, "*."+ext)); err != nil || len(drawn) == 0 {
				return fmt.Errorf("no %s is drawn: %w", ext, err)
			}
		}
	}
	if !r.json {
		return nil
	}
	return wellFormed(file)
}

// wellFormed looks at a file of --json: where, how, what and what it comes to;
// with --recorded there are rows of both conversions.
func wellFormed(file string) error {
	p, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var got struct {
		Machine *machine
		Args    []string
		Rows    []map[string]any
		Summary []map[string]any
	}
	if err := json.Unmarshal(p, &got); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(file), err)
	}
	if got.Machine == nil || got.Machine.Kernel == "" || len(got.Args) == 0 || len(got.Rows) == 0 || len(got.Summary) == 0 {
		return fmt.Errorf("%s: machine, args, rows or summary are missing", filepath.Base(file))
	}
	if slices.Contains(got.Args, "--recorded") {
		recorded := func(r map[string]any) bool { return r["recorded"] == true }
		plain := func(r map[string]any) bool { return r["recorded"] == nil }
		for _, rows := range [][]map[string]any{got.Rows, got.Summary} {
			if !slices.ContainsFunc(rows, recorded) || !slices.ContainsFunc(rows, plain) {
				return fmt.Errorf("%s: rows of recorded or of plain conversions are missing", filepath.Base(file))
			}
		}
	}
	return nil
}

// self runs this program; what it prints is told when it fails.
func self(ctx context.Context, args ...string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		const enough = 4000
		return fmt.Errorf("faasnet-bench %s: %w: %s", strings.Join(args, " "), err, out[max(0, len(out)-enough):])
	}
	return nil
}
