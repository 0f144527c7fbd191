package main

import (
	"cmp"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/rivals"
)

func compareCommand() *cli.Command {
	var names []string
	for _, s := range rivals.All() {
		names = append(names, s.Name)
	}
	return &cli.Command{
		Name:  "compare",
		Usage: "start a function on many empty VMs at the same moment with each system, ours and others",
		Description: `Bursts as those of the command burst, of each of these systems: ` + strings.Join(names, ", ") + `.
Every VM has a containerd and a daemon of the system of its own; floor has the image unpacked on
its disk before the burst begins. Systems run with their defaults, and their configuration is
printed once. What others need is built and converted when it is missing, and kept. A system that
takes more than five times as long as the best one is measured once.`,
		Flags: append(variantFlags(),
			&cli.IntSliceFlag{Name: "vms", Value: cli.NewIntSlice(8), Usage: "`NUMBER` of VMs; several are bursts of their own"},
			&cli.StringFlag{Name: "rate", Value: "100mbit", Usage: "`RATE` of the link of each VM, as tc says it"},
			&cli.StringFlag{Name: "registry-rate", Usage: "`RATE` of the link of the registry (default: that of the VMs)"},
			&cli.StringFlag{Name: "image", Value: "b", Usage: "test `IMAGE`, or a reference"},
			&cli.StringSliceFlag{Name: "systems", Value: cli.NewStringSlice(names...), Usage: "`SYSTEMS` to compare"},
			&cli.StringFlag{Name: "background", Value: "off", Usage: "on: let our daemon fetch what nobody reads, too"},
			&cli.IntFlag{Name: "reps", Value: 5, Usage: "`NUMBER` of repetitions"},
			&cli.DurationFlag{Name: "timeout", Value: time.Hour, Usage: "longest `TIME` of one burst; VMs that are not READY then have failed"},
			&cli.StringFlag{Name: "json", Usage: "write results to `FILE`, after each burst"},
			&cli.BoolFlag{Name: "resume", Usage: "keep the bursts that the file of --json holds, and measure only the others"},
		),
		Action: func(c *cli.Context) error {
			b, err := comparisonOf(c)
			if err != nil {
				return err
			}
			if err := b.keep(c.Context); err != nil {
				return err
			}
			sums, err := measure(c.Context, b, c.Int("reps"), c.String("json"), c.Bool("resume"), sumComparisons)
			if err != nil {
				return err
			}
			if err := printComparisons(c.App.Writer, sums); err != nil {
				return err
			}
			return oursFailed(sums)
		},
	}
}

// comparisonOf reads the flags.
func comparisonOf(c *cli.Context) (*bursts, error) {
	b := &bursts{
		site: site{image: c.String("image"), progress: os.Stderr}, timeout: c.Duration("timeout"), report: c.App.Writer,
		told: map[string]bool{}, footprint: true, skip: tooSlow,
	}
	if err := checkImage(b.image); err != nil {
		return nil, err
	}
	var err error
	if b.background, err = onOff(c, "background"); err != nil {
		return nil, err
	}
	p := burstPlan{Image: b.image, Rate: c.String("rate"), RegistryRate: cmp.Or(c.String("registry-rate"), c.String("rate"))}
	if b.systems, err = rivalsOf(c.StringSlice("systems")); err != nil {
		return nil, err
	}
	b.plan, err = p.each(c, c.IntSlice("vms"), c.StringSlice("systems"), twoStripes())
	return b, err
}

// tooSlow tells whether the plan's system was measured, and took more than five
// times as long as the best of the same burst. The floor does not count.
func tooSlow(rows []burstRow, p burstPlan) bool {
	const factor = 5
	var own, best float64
	for _, r := range rows {
		if r.VMs != p.VMs || r.Rate != p.Rate || r.RegistryRate != p.RegistryRate || r.Image != p.Image || r.ReadyMedian == 0 {
			continue
		}
		if r.System == p.System && r.Recorded == p.Recorded {
			own = max(own, r.ReadyMedian)
		}
		if s, err := rivals.Find(r.System); err == nil && !s.Unpacked && (best == 0 || r.ReadyMedian < best) {
			best = r.ReadyMedian
		}
	}
	return own > factor*best
}
