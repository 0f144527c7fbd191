package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/plot"
)

// figure15Row is one VM of a burst: when its image was pulled, its link had
// received the first data, its container was made and READY was printed.
type figure15Row struct {
	System   string  `json:"system"`
	Recorded bool    `json:"recorded,omitempty"`
	VMs      int     `json:"vms"`
	Image    string  `json:"image"`
	Rate     string  `json:"rate"`
	Rep      int     `json:"rep"`
	VM       string  `json:"vm"`
	Pulled   float64 `json:"pulled_s"`
	Data     float64 `json:"first_data_s"`
	Created  float64 `json:"created_s"`
	Ready    float64 `json:"ready_s"`
}

func (r figure15Row) called() string { return called(r.System, r.Recorded) }

// firstBytes is what a link has received when data come: more than manifest
// and configuration have.
const firstBytes = 100_000

// figure15Sum has medians over the repetitions.
type figure15Sum struct {
	System   string  `json:"system"` // "paper: ..." is what the paper says
	Recorded bool    `json:"recorded,omitempty"`
	VMs      int     `json:"vms"`
	Image    string  `json:"image"`
	Rate     string  `json:"rate"`
	First    float64 `json:"first_ready_s"`
	Last     float64 `json:"last_ready_s"`
	Span     float64 `json:"span_s"`
}

var paper15 = []figure15Sum{
	{"paper: faasnet", false, 128, "758 MB", "1gbit", 5.5, 7, 1.5},
	{"paper: on-demand", false, 128, "758 MB", "1gbit", 0, 0, 16.4},
	{"paper: dadi+p2p", false, 128, "758 MB", "1gbit", 3.3, 22.3, 19},
}

func figure15Command() *cli.Command {
	return &cli.Command{
		Name:  "15",
		Usage: "timeline of one burst: when each VM had pulled, received data, made the container and was READY",
		Flags: append(variantFlags(), figureFlags(
			&cli.IntFlag{Name: "vms", Value: 16, Usage: "`NUMBER` of VMs"},
			&cli.StringFlag{Name: "rate", Value: "25mbit", Usage: "`RATE` of each link, as tc says it"},
			&cli.StringFlag{Name: "image", Value: "b", Usage: "test `IMAGE`, or a reference"},
			&cli.StringSliceFlag{Name: "systems", Value: cli.NewStringSlice(withTree, withoutTree), Usage: "`SYSTEMS` to compare"},
			&cli.IntFlag{Name: "reps", Value: 1, Usage: "`NUMBER` of repetitions; the first one is drawn"},
		)...),
		Action: func(c *cli.Context) error {
			if err := quicken(c, map[string]string{"vms": "2", "rate": "200mbit", "image": "a"}); err != nil {
				return err
			}
			p := burstPlan{Image: c.String("image"), Rate: c.String("rate"), RegistryRate: c.String("rate")}
			b, err := figureBursts(c, p, c.StringSlice("systems"), []int{c.Int("vms")}, twoStripes())
			if err != nil {
				return err
			}
			out, err := newReport[figure15Row, figure15Sum](c.String("json"))
			if err != nil {
				return err
			}
			if err := b.figure15(c.Context, c.Int("reps"), out); err != nil {
				return err
			}
			if err := print15(c.App.Writer, out.Summary); err != nil {
				return err
			}
			return drawFigure(c, "figure-15", plot15(out.Rows))
		},
	}
}

func (b *bursts) figure15(ctx context.Context, reps int, out *report[figure15Row, figure15Sum]) error {
	const often = 20 * time.Millisecond
	b.traffic = &traffic{every: often}
	return b.each(ctx, reps, func(row burstRow) error {
		var rows []figure15Row
		for i, vm := range row.PerVM {
			rows = append(rows, figure15Row{
				System: row.System, Recorded: row.Recorded, VMs: row.VMs, Image: row.Image, Rate: row.Rate, Rep: row.Rep, VM: vm.VM,
				Pulled: vm.Pull, Data: b.traffic.firstData(i, firstBytes).Seconds(), Created: vm.Create, Ready: vm.Ready,
			})
		}
		return out.addAll(rows, sum15)
	})
}

func sum15(rows []figure15Row) (out []figure15Sum) {
	systems, groups := by(rows, figure15Row.called)
	for _, s := range systems {
		sum := figure15Sum{System: groups[s][0].System, Recorded: groups[s][0].Recorded, VMs: groups[s][0].VMs, Image: groups[s][0].Image, Rate: groups[s][0].Rate}
		var first, last, span []float64
		reps, bursts := by(groups[s], func(r figure15Row) int { return r.Rep })
		for _, rep := range reps {
			ready := column(bursts[rep], func(r figure15Row) float64 { return r.Ready })
			a, z := percentile(ready, 0), percentile(ready, 1)
			first, last, span = append(first, a), append(last, z), append(span, z-a)
		}
		sum.First, sum.Last, sum.Span = median(first), median(last), median(span)
		out = append(out, sum)
	}
	return append(out, paper15...)
}

func print15(w io.Writer, sums []figure15Sum) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "system\tVMs\timage\tlink\tfirst READY s\tlast READY s\tspan s\t")
	for _, s := range sums {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t%.2f\t\n", called(s.System, s.Recorded), s.VMs, s.Image, s.Rate, ratio("%.2f", s.First), ratio("%.2f", s.Last), s.Span)
	}
	return t.Flush()
}

// plot15 draws how many VMs had come how far by when.
func plot15(rows []figure15Row) plot.Figure {
	f := plot.Figure{Title: "Timeline of a burst", X: plot.Axis{Label: "seconds after the begin"}, Y: plot.Axis{Label: "VMs"}}
	systems, groups := by(rows, figure15Row.called)
	for _, s := range systems {
		g := groups[s]
		first := g[:0:0]
		for _, r := range g {
			if r.Rep == g[0].Rep {
				first = append(first, r)
			}
		}
		f.Note = fmt.Sprintf("%d VMs, image %s, links of %s", g[0].VMs, g[0].Image, g[0].Rate)
		step := func(name string, of func(figure15Row) float64) {
			f.Series = append(f.Series, plot.Series{Name: name, Kind: plot.Steps, Points: plot.Count(column(first, of))})
		}
		if s == withTree {
			step("image pulled", func(r figure15Row) float64 { return r.Pulled })
			step("first data", func(r figure15Row) float64 { return r.Data })
			step("container made", func(r figure15Row) float64 { return r.Created })
		}
		step(s+": READY", func(r figure15Row) float64 { return r.Ready })
	}
	return f
}
