package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/plot"
)

// figure14Sum is the time to READY of a number of VMs that start at once.
type figure14Sum struct {
	System   string `json:"system"` // "paper: ..." is what the paper says
	Recorded bool   `json:"recorded,omitempty"`
	Image    string `json:"image"`
	Rate     string `json:"rate"`
	VMs      int    `json:"vms"`
	Reps     int    `json:"reps"`

	ReadyMedian float64 `json:"ready_median_s"`
	ReadyP95    float64 `json:"ready_p95_s,omitempty"`
	OverOne     float64 `json:"ready_over_one_vm,omitempty"`
	// OverFaasnet compares with ours of the same image, plain.
	OverFaasnet float64 `json:"ready_over_faasnet,omitempty"`
}

// paper14 are the paper's figures: a 758 MB image, VMs with 1 Gbit/s. It gives
// those at 128 VMs as ratios, and says of 8 that FaaSNet's are about the same
// and that on-demand's are 2.9 times lower.
func paper14() (sums []figure14Sum) {
	const faasnet = 83.3 / 13.4
	for _, p := range []struct {
		name  string
		vms   int
		ready float64
	}{
		{"faasnet", 8, faasnet}, {"faasnet", 128, faasnet}, {"on-demand", 8, 5 * faasnet / 2.9}, {"on-demand", 128, 5 * faasnet},
		{"dadi+p2p", 128, 2.8 * faasnet}, {"baseline", 128, 83.3}, {"kraken", 128, 100.4},
	} {
		sums = append(sums, figure14Sum{System: "paper: " + p.name, Image: "758 MB", Rate: "1gbit", VMs: p.vms, ReadyMedian: p.ready, OverFaasnet: p.ready / faasnet})
	}
	return sums
}

func figure14Command() *cli.Command {
	return &cli.Command{
		Name:  "14",
		Usage: "time to READY by the number of VMs that start at once",
		Description: `Bursts as those of the command burst, for each number of VMs, or the rows of bursts and comparisons
that were measured before (--from).`,
		Flags: append(variantFlags(), figureFlags(
			&cli.IntSliceFlag{Name: "vms", Value: cli.NewIntSlice(1, 4, 8, 16), Usage: "`NUMBER` of VMs; several are bursts of their own"},
			&cli.StringFlag{Name: "rate", Value: "25mbit", Usage: "`RATE` of each link, as tc says it"},
			&cli.StringFlag{Name: "image", Value: "b", Usage: "test `IMAGE`, or a reference"},
			&cli.StringSliceFlag{Name: "systems", Value: cli.NewStringSlice(withTree, withoutTree), Usage: "`SYSTEMS` to compare"},
			&cli.IntFlag{Name: "reps", Value: 3, Usage: "`NUMBER` of repetitions"},
			&cli.DurationFlag{Name: "timeout", Value: burstTimeout, Usage: "longest `TIME` of one burst"},
			&cli.StringSliceFlag{Name: "from", Usage: "results `FILE` of burst or compare to take rows from, and measure nothing"},
			&cli.BoolFlag{Name: "resume", Usage: "keep the bursts that the file of --json holds, and measure only the others"},
		)...),
		Action: func(c *cli.Context) error {
			if err := quicken(c, map[string]string{"vms": "1,2", "rate": "200mbit", "image": "a", "reps": "1"}); err != nil {
				return err
			}
			sums, err := figure14(c)
			if err != nil {
				return err
			}
			if err := print14(c.App.Writer, sums); err != nil {
				return err
			}
			return drawFigure(c, "figure-14", plot14(sums))
		},
	}
}

func figure14(c *cli.Context) ([]figure14Sum, error) {
	if files := c.StringSlice("from"); len(files) > 0 {
		return figure14From(files, c.String("json"))
	}
	p := burstPlan{Image: c.String("image"), Rate: c.String("rate"), RegistryRate: c.String("rate")}
	b, err := figureBursts(c, p, c.StringSlice("systems"), c.IntSlice("vms"), twoStripes())
	if err != nil {
		return nil, err
	}
	return measure(c.Context, b, c.Int("reps"), c.String("json"), c.Bool("resume"), sum14)
}

// figure14From takes the rows of files, each as further repetitions, and writes
// them into one.
func figure14From(files []string, to string) ([]figure14Sum, error) {
	out, err := newReport[burstRow, figure14Sum](to)
	if err != nil {
		return nil, err
	}
	var rows pool
	for i, name := range files {
		p, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var measured report[burstRow, json.RawMessage]
		if err := json.Unmarshal(p, &measured); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if i == 0 {
			out.Machine = measured.Machine // where the rows are from, and the program that measured them
		}
		rows.add(slices.DeleteFunc(measured.Rows, func(r burstRow) bool { return r.Kill != (kill{}) || r.Full }))
	}
	var all []burstRow
	for _, r := range rows {
		all = append(all, r.burstRow)
	}
	err = out.addAll(all, sum14)
	return out.Summary, err
}

// sum14 leaves out what was measured with one stripe: a line is of one system.
func sum14(rows []burstRow) (out []figure14Sum) {
	faasnet := map[burstPlan]float64{}
	bare := func(p burstPlan) burstPlan {
		p.System, p.Recorded, p.Form, p.Stripes = "", false, "", 0
		return p
	}
	sums := sumBursts(rows)
	for _, s := range sums {
		if s.System == withTree && !s.Recorded && s.Stripes != 1 {
			faasnet[bare(s.burstPlan)] = s.ReadyMedian
		}
	}
	for _, s := range sums {
		if s.Stripes == 1 {
			continue
		}
		f := figure14Sum{System: s.System, Recorded: s.Recorded, Image: s.Image, Rate: s.Rate, VMs: s.VMs, Reps: s.Reps, ReadyMedian: s.ReadyMedian, ReadyP95: s.ReadyP95, OverOne: s.OverOne}
		if ours := faasnet[bare(s.burstPlan)]; ours > 0 {
			f.OverFaasnet = s.ReadyMedian / ours
		}
		out = append(out, f)
	}
	return append(out, paper14()...)
}

func print14(w io.Writer, sums []figure14Sum) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "system\timage\tlink\tVMs\treps\tREADY s\tp95\tof 1 VM\tof faasnet\t")
	for _, s := range sums {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%.2f\t%s\t%s\t%s\t\n", called(s.System, s.Recorded), s.Image, s.Rate, s.VMs, s.Reps, s.ReadyMedian,
			ratio("%.2f", s.ReadyP95), ratio("%.2fx", s.OverOne), ratio("%.2fx", s.OverFaasnet))
	}
	return t.Flush()
}

// plot14 draws each system's times, of one image and rate each.
func plot14(sums []figure14Sum) plot.Figure {
	f := plot.Figure{
		Title: "Time to READY of VMs that start at once", Note: "median of the VMs; the paper's with a 758 MB image and links of 1 Gbit/s",
		X: plot.Axis{Label: "VMs", Log: true}, Y: plot.Axis{Label: "seconds", Log: true},
	}
	several := map[string]bool{}
	for _, s := range sums {
		if s.Reps > 0 {
			several[s.Image+s.Rate] = true
		}
	}
	index := map[string]int{}
	var ticks []int
	for _, s := range sums {
		name := called(s.System, s.Recorded)
		if s.Reps > 0 && len(several) > 1 {
			name += ": " + s.Image + ", " + s.Rate
		}
		i, known := index[name]
		if !known {
			i = len(f.Series)
			index[name] = i
			f.Series = append(f.Series, plot.Series{Name: name})
		}
		f.Series[i].Points = append(f.Series[i].Points, plot.At(float64(s.VMs), s.ReadyMedian))
		ticks = append(ticks, s.VMs)
	}
	slices.Sort(ticks)
	for _, n := range slices.Compact(ticks) {
		f.X.Ticks = append(f.X.Ticks, float64(n))
	}
	for _, s := range sums {
		if s.Reps > 0 && len(several) == 1 {
			f.Note = fmt.Sprintf("image %s, links of %s; the paper's with a 758 MB image and links of 1 Gbit/s", s.Image, s.Rate)
			break
		}
	}
	return f
}
