package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/micro"
)

// micros measures parts, one at a time.
type micros struct {
	*bench
	reps     int
	quick    bool
	systems  []string
	progress io.Writer
	out      *report[microRow, microSummary]
	registry microRegistry
	vms      int // made so far
}

// microGroup measures one or more names.
type microGroup struct {
	names   []string
	what    string
	measure func(m *micros, ctx context.Context, names []string) error
}

func microGroups() []microGroup {
	files := microGroup{what: "files of a mounted image, beside overlayfs on ext4 and stargz", measure: (*micros).files}
	for _, w := range micro.Works() {
		files.names = append(files.names, w.Name)
	}
	return []microGroup{
		files,
		{[]string{"block"}, "blocks: encode, decode and verify, MB/s of one core", (*micros).blocks},
		{[]string{"relay"}, "the relay: Gbit/s of one core, served, received and passed on", (*micros).relays},
		{[]string{"tree"}, "the function tree: changes a second", (*micros).trees},
		{[]string{"layers"}, "Prepare and mount of images with many layers", (*micros).layers},
		{[]string{"rss"}, "memory of the daemon with many functions mounted", (*micros).memory},
	}
}

func microNames() (names []string) {
	for _, g := range microGroups() {
		names = append(names, g.names...)
	}
	return names
}

func microCommand() *cli.Command {
	var about strings.Builder
	for _, g := range microGroups() {
		fmt.Fprintf(&about, "%s: %s\n", strings.Join(g.names, ", "), g.what)
	}
	for _, w := range micro.Works() {
		fmt.Fprintf(&about, "  %-6s  %s (image %s)\n", w.Name, w.What, w.Image)
	}
	return &cli.Command{
		Name:      "micro",
		Usage:     "measure parts: files, blocks, relay, tree, layers, memory",
		ArgsUsage: "[NAME]...",
		Description: about.String() + `
States of files: cold and warm are those of the page cache, with all data on the disk: overlayfs has
the unpacked layers, ours the whole layers, stargz its cache. lazy-cold and lazy-warm are ours in a
container that was there before the layers were whole; blocks is cold with compressed blocks on the
disk and nothing decoded; registry is cold with an empty store, over a link that is not shaped.`,
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "systems", Value: cli.NewStringSlice(microSystems...), Usage: "`SYSTEMS` whose files are measured"},
			&cli.IntFlag{Name: "reps", Value: 5, Usage: "`NUMBER` of repetitions"},
			&cli.BoolFlag{Name: "quick", Usage: "one repetition of less: shows that it works, not how fast"},
			&cli.StringFlag{Name: "json", Usage: "write results to `FILE`, after each figure"},
			&cli.BoolFlag{Name: "resume", Usage: "keep the figures that the file of --json holds, and measure only the others"},
		},
		Action: func(c *cli.Context) error {
			m := micros{reps: c.Int("reps"), quick: c.Bool("quick"), systems: c.StringSlice("systems"), progress: os.Stderr}
			if m.quick {
				m.reps = 1
			}
			if err := m.measure(c.Context, c.Args().Slice(), c.String("json"), c.Bool("resume")); err != nil {
				return err
			}
			return printMicros(c.App.Writer, m.out.Summary)
		},
	}
}

func (m *micros) measure(ctx context.Context, names []string, file string, resume bool) (err error) {
	if len(names) == 0 {
		names = microNames()
	}
	for _, name := range names {
		if !slices.Contains(microNames(), name) {
			return usagef("no name %q, only %s", name, strings.Join(microNames(), ", "))
		}
	}
	for _, s := range m.systems {
		if !slices.Contains(microSystems, s) {
			return usagef("no system %q, only %s", s, strings.Join(microSystems, ", "))
		}
	}
	if m.out, err = newReport[microRow, microSummary](file); err != nil {
		return err
	}
	if resume {
		if err := m.out.resume(); err != nil {
			return err
		}
	}
	if m.bench, err = newBench(ctx); err != nil {
		return err
	}
	defer m.close(&err)
	for _, g := range microGroups() {
		mine := slices.DeleteFunc(slices.Clone(g.names), func(name string) bool { return !slices.Contains(names, name) })
		if len(mine) == 0 {
			continue
		}
		if err := g.measure(m, ctx, mine); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(mine, ", "), err)
		}
	}
	m.out.Summary = sumMicros(m.out.Rows)
	return nil
}

// have tells that an earlier run has measured this.
func (m *micros) have(p microPlan, rep int) bool {
	return slices.ContainsFunc(m.out.Rows, func(r microRow) bool { return r.microPlan == p && r.Rep == rep })
}

func (m *micros) add(r microRow) error {
	fmt.Fprintf(m.progress, "rep %d  %-32v %10.4g %s\n", r.Rep+1, r.microPlan, r.Value, r.Unit)
	return m.out.add(r, sumMicros)
}
