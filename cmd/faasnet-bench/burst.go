package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/script/lab"
)

func burstCommand() *cli.Command {
	return &cli.Command{
		Name:  "burst",
		Usage: "start a function on many empty VMs at the same moment",
		Description: `Registry, coordinator and VMs are network namespaces on a bridge; the links of VMs carry --rate
both ways, that of the registry --registry-rate. A repetition has new VMs with empty stores and
a new coordinator; daemons are up and caches are dropped before the burst begins. Repetitions
are outermost, systems innermost. READY counts from the moment at which all begin to pull.

--kill WHO:HOW@WHEN takes a VM down in the middle of the burst: the root, an inner one (it has
downstream VMs, and reads from another VM) or a leaf of the tree is dealt kill (SIGKILL to all of
its processes), stop (SIGSTOP) or link-down, WHEN after the burst began. Figures are then those
of the others. --kill none is a burst without a fault.`,
		Flags: append(variantFlags(),
			&cli.IntSliceFlag{Name: "vms", Value: cli.NewIntSlice(4), Usage: "`NUMBER` of VMs; several are bursts of their own"},
			&cli.StringFlag{Name: "rate", Value: "200mbit", Usage: "`RATE` of the link of each VM, as tc says it"},
			&cli.StringFlag{Name: "registry-rate", Usage: "`RATE` of the link of the registry (default: that of the VMs)"},
			&cli.StringFlag{Name: "image", Value: "c", Usage: "test `IMAGE`, or a reference"},
			&cli.StringSliceFlag{Name: "systems", Value: cli.NewStringSlice(withTree, withoutTree), Usage: "`SYSTEMS` to compare"},
			&cli.StringFlag{Name: "tree", Value: "on", Usage: "off: leave out the system that has a tree"},
			&cli.IntSliceFlag{Name: "stripes", Value: cli.NewIntSlice(2), Usage: "`NUMBER` of trees that share the blocks, 1 or 2; both are bursts of their own"},
			&cli.StringFlag{Name: "form", Usage: "`FORM` of trees with one stripe: complete or rotate (default: complete)"},
			&cli.BoolFlag{Name: "full", Usage: "read every file of the image instead of running its function; READY is when all was read"},
			&cli.StringSliceFlag{Name: "kill", Usage: "`FAULT` in the middle of the burst; several are bursts of their own"},
			&cli.StringFlag{Name: "background", Value: "off", Usage: "on: let our daemon fetch what nobody reads, too"},
			&cli.BoolFlag{Name: "draw", Usage: "draw each tree at the end of its burst, with the bytes on its edges"},
			&cli.IntFlag{Name: "reps", Value: 3, Usage: "`NUMBER` of repetitions"},
			&cli.DurationFlag{Name: "timeout", Value: 10 * time.Minute, Usage: "longest `TIME` of one burst; VMs that are not READY then have failed"},
			&cli.StringFlag{Name: "json", Usage: "write results to `FILE`, after each burst"},
			&cli.BoolFlag{Name: "resume", Usage: "keep the bursts that the file of --json holds, and measure only the others"},
		),
		Action: func(c *cli.Context) error {
			b, err := burstsOf(c)
			if err != nil {
				return err
			}
			sums, err := measure(c.Context, b, c.Int("reps"), c.String("json"), c.Bool("resume"), sumBursts)
			if err != nil {
				return err
			}
			if err := printBursts(c.App.Writer, sums); err != nil {
				return err
			}
			return failures(sums)
		},
	}
}

// bursts measures bursts of one image.
type bursts struct {
	site
	plan       []burstPlan // of one repetition
	background bool
	draw       bool
	timeout    time.Duration
	report     io.Writer       // takes a table of VMs for each burst
	told       map[string]bool // of which the configuration was printed
	quiet      bool            // print no configuration
	footprint  bool            // measure disks
	// skip says whether a plan is to be left out of a repetition, after the
	// rows so far; nil: none is.
	skip func(rows []burstRow, p burstPlan) bool
	// act is done on new VMs in place of a burst; nil: a burst.
	act func(ctx context.Context, b *burst, row *burstRow) error
	// more gives the registry more than the image, before it is started; nil: nothing.
	more func(h *lab.Host, r *lab.Registry) error
	// traffic follows the links through each burst; nil: nobody does.
	traffic *traffic
}

// measure runs the plan reps times; sum sums up.
func measure[S any](ctx context.Context, b *bursts, reps int, file string, resume bool, sum func([]burstRow) []S) (sums []S, err error) {
	out, err := newReport[burstRow, S](file)
	if err != nil {
		return nil, err
	}
	if resume {
		if err := out.resume(); err != nil {
			return nil, err
		}
	}
	if b.bench, err = newBench(ctx); err != nil {
		return nil, err
	}
	defer b.close(&err)
	b.recorded = anyRecorded(b.plan)
	if err := b.prepare(ctx, b.plan[0].RegistryRate); err != nil {
		return nil, err
	}
	for rep := range reps {
		for _, p := range b.plan {
			if !b.due(out.Rows, p, rep) {
				continue
			}
			row, err := b.once(ctx, p, rep)
			if err != nil {
				return nil, fmt.Errorf("%v: %w", p, err)
			}
			if err := out.add(row, sum); err != nil {
				return nil, err
			}
		}
	}
	out.Summary = sum(out.Rows)
	return out.Summary, nil
}

// due tells whether a plan is still to be measured in a repetition.
func (b *bursts) due(rows []burstRow, p burstPlan, rep int) bool {
	had := slices.ContainsFunc(rows, func(r burstRow) bool { return r.burstPlan == p && r.Rep == rep })
	return !had && (b.skip == nil || !b.skip(rows, p))
}

// fleet is what the VMs of a plan run.
func (b *bursts) fleet(p burstPlan, tree *lab.Coordinator) lab.Fleet {
	f := lab.Fleet{Name: "vm", VMs: p.VMs, Rate: p.Rate, HostsDir: b.hosts, Release: lab.Current}
	switch system := p.system(); {
	case system.Ours:
		f.Daemon = &lab.DaemonConfig{NoBackground: !b.background, Coordinator: tree, LogLevel: "info"}
	case system.Start != nil:
		f.Plugin = func(ctx context.Context, vm *lab.Host) (*lab.Plugin, error) {
			return system.Start(ctx, vm, b.programs, b.server.Addr)
		}
	}
	return f
}
