package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/plot"
	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/rivals"
	"github.com/faasnet/faasnet/script/images"
	"github.com/faasnet/faasnet/script/lab"
)

// figure18Row is the start of one of several functions that share VMs.
type figure18Row struct {
	System    string  `json:"system"`
	Recorded  bool    `json:"recorded,omitempty"`
	VMs       int     `json:"vms"`
	Functions int     `json:"functions"`
	Rate      string  `json:"rate"`
	Rep       int     `json:"rep"`
	Image     string  `json:"image"`
	VM        string  `json:"vm"`
	Ready     float64 `json:"ready_s"`
}

// figure18Sum has the times of all functions of all repetitions. OverMost is
// the median of the ratios to the most VMs, within repetitions.
type figure18Sum struct {
	System      string  `json:"system"` // "paper: ..." is what the paper says
	Recorded    bool    `json:"recorded,omitempty"`
	VMs         int     `json:"vms"`
	Functions   int     `json:"functions"`
	Rate        string  `json:"rate"`
	ReadyMedian float64 `json:"ready_median_s,omitempty"`
	ReadyMax    float64 `json:"ready_max_s,omitempty"`
	OverMost    float64 `json:"ready_over_most_vms"`
}

var paper18 = []figure18Sum{
	{System: "paper: faasnet", VMs: 1, Functions: 8, Rate: "1gbit", OverMost: 1},
	{System: "paper: dadi+p2p", VMs: 1, Functions: 8, Rate: "1gbit", OverMost: 2},
}

func figure18Command() *cli.Command {
	return &cli.Command{
		Name:  "18",
		Usage: "time to READY of eight functions with different images on 4, 2 and 1 VMs",
		Description: `Images have 75 MB and nothing in common but busybox; all functions start at the same moment, and each
VM pulls and starts its share of them at once. The floor has the images unpacked on the disks
before: how much later its functions are is what sharing the VM's processors costs.`,
		Flags: append(variantFlags(), figureFlags(
			&cli.IntSliceFlag{Name: "vms", Value: cli.NewIntSlice(4, 2, 1), Usage: "`NUMBER` of VMs; several are measured one after the other"},
			&cli.IntFlag{Name: "functions", Value: len(images.Small()), Usage: "`NUMBER` of functions"},
			&cli.StringFlag{Name: "rate", Value: "300mbit", Usage: "`RATE` of each link, as tc says it"},
			&cli.StringSliceFlag{Name: "systems", Value: cli.NewStringSlice("overlayfs", withTree, "floor"), Usage: "`SYSTEMS` to compare"},
			&cli.IntFlag{Name: "reps", Value: 3, Usage: "`NUMBER` of repetitions"},
		)...),
		Action: func(c *cli.Context) error {
			if err := quicken(c, map[string]string{"vms": "2,1", "functions": "2", "reps": "1", "systems": withTree}); err != nil {
				return err
			}
			functions := c.Int("functions")
			if functions < 1 || functions > len(images.Small()) {
				return usagef("--functions %d: not 1 to %d", functions, len(images.Small()))
			}
			out, err := newReport[figure18Row, figure18Sum](c.String("json"))
			if err != nil {
				return err
			}
			if err := figure18(c, functions, out); err != nil {
				return err
			}
			if err := print18(c.App.Writer, out.Summary); err != nil {
				return err
			}
			return drawFigure(c, "figure-18", plot18(out.Summary))
		},
	}
}

func figure18(c *cli.Context, functions int, out *report[figure18Row, figure18Sum]) error {
	p := burstPlan{Image: "a", Rate: c.String("rate"), RegistryRate: c.String("rate")}
	for _, name := range c.StringSlice("systems") {
		if s, err := rivals.Find(name); err != nil || !s.Ours && s.Start != nil {
			return usagef("system %q: figure 18 knows overlayfs, ours and the floor", name)
		}
	}
	b, err := figureBursts(c, p, c.StringSlice("systems"), c.IntSlice("vms"), twoStripes())
	if err != nil {
		return err
	}
	names := images.Small()[:functions]
	b.act = func(ctx context.Context, u *burst, row *burstRow) error {
		rows, err := u.startAll(ctx, names)
		for i := range rows {
			rows[i].Rep = row.Rep
		}
		if err != nil {
			return err
		}
		return out.addAll(rows, sum18)
	}
	fill := func(h *lab.Host, r *lab.Registry) error {
		for _, name := range names {
			if err := b.pushBoth(c.Context, h, r, name, name, converted); err != nil {
				return err
			}
		}
		return nil
	}
	b.more = fill
	return b.each(c.Context, c.Int("reps"), func(burstRow) error { return nil })
}

// startAll starts the functions at the same moment, each VM its share of them.
func (b *burst) startAll(ctx context.Context, names []string) ([]figure18Row, error) {
	ctx, end := context.WithTimeout(ctx, b.timeout)
	defer end()
	how := b.plan.system()
	ref := func(name string) string { return b.server.Addr + "/" + name + ":" + how.Tag }
	vm := func(i int) *lab.VM { return b.vms[i%len(b.vms)] }
	if how.Unpacked {
		for i, name := range names {
			if err := vm(i).Containerd.Pull(ctx, how.Snapshotter, ref(name)); err != nil {
				return nil, err
			}
		}
		if err := dropCaches(); err != nil {
			return nil, err
		}
	}
	rows := make([]figure18Row, len(names))
	begin := time.Now().Add(pause)
	var g errgroup.Group
	for i, name := range names {
		rows[i] = figure18Row{System: b.plan.System, Recorded: b.plan.Recorded, VMs: b.plan.VMs, Functions: len(names), Rate: b.plan.Rate, Image: name, VM: vm(i).Name()}
		g.Go(func() error {
			time.Sleep(time.Until(begin))
			c := vm(i).Containerd
			if !how.Unpacked {
				if err := c.Pull(ctx, how.Snapshotter, ref(name)); err != nil {
					return err
				}
			}
			return c.Run(ctx, how.Snapshotter, ref(name), func(line string) bool {
				rows[i].Ready = time.Since(begin).Seconds()
				return line == lab.Ready
			})
		})
	}
	return rows, g.Wait()
}

func sum18(rows []figure18Row) (out []figure18Sum) {
	most := 0
	for _, r := range rows {
		most = max(most, r.VMs)
	}
	systems, groups := by(rows, func(r figure18Row) string { return called(r.System, r.Recorded) })
	for _, s := range systems {
		sizes, byVMs := by(groups[s], func(r figure18Row) int { return r.VMs })
		base := mediansByRep(byVMs[most])
		for _, n := range sizes {
			ready := column(byVMs[n], func(r figure18Row) float64 { return r.Ready })
			sum := figure18Sum{System: byVMs[n][0].System, Recorded: byVMs[n][0].Recorded, VMs: n, Functions: byVMs[n][0].Functions, Rate: byVMs[n][0].Rate, ReadyMedian: median(ready), ReadyMax: percentile(ready, 1)}
			var over []float64
			for rep, m := range mediansByRep(byVMs[n]) {
				if base[rep] > 0 {
					over = append(over, m/base[rep])
				}
			}
			sum.OverMost = median(over)
			out = append(out, sum)
		}
	}
	return append(out, paper18...)
}

func mediansByRep(rows []figure18Row) map[int]float64 {
	medians := map[int]float64{}
	reps, groups := by(rows, func(r figure18Row) int { return r.Rep })
	for _, rep := range reps {
		medians[rep] = median(column(groups[rep], func(r figure18Row) float64 { return r.Ready }))
	}
	return medians
}

func print18(w io.Writer, sums []figure18Sum) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "system\tVMs\tfunctions\tlink\tREADY s\tmax\tof most VMs\t")
	for _, s := range sums {
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%s\t%.2fx\t\n", called(s.System, s.Recorded), s.VMs, s.Functions, s.Rate, ratio("%.2f", s.ReadyMedian), ratio("%.2f", s.ReadyMax), s.OverMost)
	}
	return t.Flush()
}

func plot18(sums []figure18Sum) plot.Figure {
	f := plot.Figure{Title: "Functions with different images that share VMs", X: plot.Axis{Label: "VMs"}, Y: plot.Axis{Label: "median time to READY, s"}}
	var sizes []int
	for _, s := range sums {
		if s.ReadyMedian > 0 && !slices.Contains(sizes, s.VMs) {
			sizes = append(sizes, s.VMs)
			f.X.Names = append(f.X.Names, strconv.Itoa(s.VMs))
			f.Note = fmt.Sprintf("%d images of 75 MB, links of %s", s.Functions, s.Rate)
		}
	}
	systems, groups := by(sums, func(s figure18Sum) string { return called(s.System, s.Recorded) })
	for _, name := range systems {
		series := plot.Series{Name: name, Kind: plot.Bars}
		for _, s := range groups[name] {
			if s.ReadyMedian > 0 {
				series.Points = append(series.Points, plot.At(float64(slices.Index(sizes, s.VMs)), s.ReadyMedian))
			}
		}
		if len(series.Points) > 0 {
			f.Series = append(f.Series, series)
		}
	}
	return f
}
