package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/plot"
)

// figure16Row is what went over the link of one inner VM during a burst.
type figure16Row struct {
	System  string           `json:"system"`
	Form    string           `json:"form"`
	Stripes int              `json:"stripes"`
	VMs     int              `json:"vms"`
	Image   string           `json:"image"`
	Rate    string           `json:"rate"`
	Full    bool             `json:"full,omitempty"`
	Rep     int              `json:"rep"`
	VM      string           `json:"vm"`
	Ready   float64          `json:"ready_s"`
	Samples []figure16Sample `json:"samples"`
}

// figure16Sample is where the counters of a link stood.
type figure16Sample struct {
	After float64 `json:"after_s"`
	In    int64   `json:"in_bytes"`
	Out   int64   `json:"out_bytes"`
}

// figure16Sum has medians over the repetitions; peaks are of windows of a
// quarter of a second, InStep is the correlation of in and out over them.
type figure16Sum struct {
	System  string  `json:"system"` // "paper: ..." is what the paper says
	Form    string  `json:"form"`
	VMs     int     `json:"vms"`
	Image   string  `json:"image"`
	Rate    string  `json:"rate"`
	In      int64   `json:"in_bytes"`
	Out     int64   `json:"out_bytes"`
	OutOver float64 `json:"out_over_in"`
	PeakIn  int64   `json:"peak_in_bytes_s"`
	PeakOut int64   `json:"peak_out_bytes_s"`
	OfLine  float64 `json:"peak_of_line"`
	InStep  float64 `json:"in_step"`
}

var paper16 = figure16Sum{System: "paper: faasnet", Form: "rotate", VMs: 128, Image: "758 MB", Rate: "1gbit", OutOver: 2, PeakOut: 45e6, OfLine: 0.352}

func figure16Command() *cli.Command {
	return &cli.Command{
		Name:  "16",
		Usage: "bandwidth in and out of one inner VM during a burst",
		Description: `The VM reads from another one and is read from by two. With one stripe, as in the paper, it sends
twice what it receives; with two, every VM is inner in one of them at most, and sends as much as
it receives. Its port of the bridge is read every 50 ms.`,
		Flags: figureFlags(
			&cli.IntFlag{Name: "vms", Value: 7, Usage: "`NUMBER` of VMs"},
			&cli.StringFlag{Name: "rate", Value: "100mbit", Usage: "`RATE` of each link, as tc says it"},
			&cli.StringFlag{Name: "image", Value: "c", Usage: "test `IMAGE`, or a reference"},
			&cli.IntSliceFlag{Name: "stripes", Value: cli.NewIntSlice(1, 2), Usage: "`NUMBER` of trees that share the blocks"},
			&cli.BoolFlag{Name: "full", Usage: "read every file of the image instead of running its function"},
			&cli.IntFlag{Name: "reps", Value: 3, Usage: "`NUMBER` of repetitions; the first one is drawn"},
		),
		Action: func(c *cli.Context) error {
			if err := quicken(c, map[string]string{"vms": "4", "image": "a", "reps": "1", "stripes": "1"}); err != nil {
				return err
			}
			p := burstPlan{Image: c.String("image"), Rate: c.String("rate"), RegistryRate: c.String("rate"), Full: c.Bool("full")}
			b, err := figureBursts(c, p, []string{withTree}, []int{c.Int("vms")}, c.IntSlice("stripes"))
			if err != nil {
				return err
			}
			out, err := newReport[figure16Row, figure16Sum](c.String("json"))
			if err != nil {
				return err
			}
			if err := b.figure16(c.Context, c.Int("reps"), out); err != nil {
				return err
			}
			if err := print16(c.App.Writer, out.Summary); err != nil {
				return err
			}
			for _, r := range out.Rows {
				if r.Rep > 0 {
					continue
				}
				if err := drawFigure(c, "figure-16-"+r.Form, plot16(r)); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func (b *bursts) figure16(ctx context.Context, reps int, out *report[figure16Row, figure16Sum]) error {
	const often = 50 * time.Millisecond
	b.traffic = &traffic{every: often}
	return b.each(ctx, reps, func(row burstRow) error {
		i := innerVM(row.PerVM)
		if i < 0 {
			return errors.New("no VM reads from another one and is read from by another")
		}
		r := figure16Row{
			System: row.System, Form: row.Form, Stripes: row.Stripes, VMs: row.VMs, Image: row.Image, Rate: row.Rate, Full: row.Full, Rep: row.Rep,
			VM: row.PerVM[i].VM, Ready: row.PerVM[i].Ready,
		}
		for _, s := range b.traffic.samples {
			r.Samples = append(r.Samples, figure16Sample{s.after.Seconds(), s.links[i].Received, s.links[i].Sent})
		}
		return out.add(r, sum16)
	})
}

// innerVM finds a VM that in one stripe has an upstream VM and the most VMs
// below it, one at least.
func innerVM(vms []burstVM) (index int) {
	index = -1
	most := 0
	for i, vm := range vms {
		for stripe, up := range vm.Upstreams {
			if up == "" {
				continue
			}
			below := 0
			for _, other := range vms {
				if stripe < len(other.Upstreams) && other.Upstreams[stripe] == vm.VM {
					below++
				}
			}
			if below > most {
				index, most = i, below
			}
		}
	}
	return index
}

// windows gives what went in and out in windows of so many seconds, in bytes
// a second.
func (r figure16Row) windows(seconds float64) (at, in, out []float64) {
	last := figure16Sample{}
	for _, s := range r.Samples {
		if d := s.After - last.After; d >= seconds {
			at = append(at, (s.After+last.After)/2)
			in, out = append(in, float64(s.In-last.In)/d), append(out, float64(s.Out-last.Out)/d)
			last = s
		}
	}
	return at, in, out
}

func sum16(rows []figure16Row) (out []figure16Sum) {
	const window = 0.25
	forms, groups := by(rows, func(r figure16Row) string { return r.Form })
	for _, form := range forms {
		g := groups[form]
		sum := figure16Sum{System: g[0].System, Form: form, VMs: g[0].VMs, Image: g[0].Image, Rate: g[0].Rate}
		var outOver, step, ofLine []float64
		var peakIn, peakOut, in, sent []int64
		rate, err := parseRate(g[0].Rate)
		for _, r := range g {
			_, a, z := r.windows(window)
			end := r.Samples[len(r.Samples)-1]
			in, sent, outOver = append(in, end.In), append(sent, end.Out), append(outOver, float64(end.Out)/float64(max(1, end.In)))
			peakIn, peakOut = append(peakIn, int64(percentile(a, 1))), append(peakOut, int64(percentile(z, 1)))
			step = append(step, correlation(a, z))
			if err == nil {
				ofLine = append(ofLine, max(percentile(a, 1), percentile(z, 1))*8/rate)
			}
		}
		sum.In, sum.Out, sum.OutOver, sum.PeakIn, sum.PeakOut, sum.OfLine, sum.InStep = median(in), median(sent), median(outOver), median(peakIn), median(peakOut), median(ofLine), median(step)
		out = append(out, sum)
	}
	return append(out, paper16)
}

// correlation is Pearson's; 0 where one of the two does not vary.
func correlation(x, y []float64) float64 {
	mean := func(v []float64) (m float64) {
		for _, f := range v {
			m += f / float64(len(v))
		}
		return m
	}
	mx, my := mean(x), mean(y)
	var xy, xx, yy float64
	for i := range x {
		xy, xx, yy = xy+(x[i]-mx)*(y[i]-my), xx+(x[i]-mx)*(x[i]-mx), yy+(y[i]-my)*(y[i]-my)
	}
	if xx == 0 || yy == 0 {
		return 0
	}
	return xy / math.Sqrt(xx*yy)
}

func print16(w io.Writer, sums []figure16Sum) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "system\tform\tVMs\timage\tlink\tMB in\tMB out\tout : in\tpeak in MB/s\tpeak out MB/s\tof the line\tin step\t")
	for _, s := range sums {
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%.2f\t%s\t%s\t%.1f %%\t%s\t\n", s.System, s.Form, s.VMs, s.Image, s.Rate,
			ratio("%.1f", float64(s.In)/mega), ratio("%.1f", float64(s.Out)/mega), s.OutOver, ratio("%.2f", float64(s.PeakIn)/mega), ratio("%.2f", float64(s.PeakOut)/mega), s.OfLine*100, ratio("%.2f", s.InStep))
	}
	return t.Flush()
}

func plot16(r figure16Row) plot.Figure {
	const window = 0.2
	stripes := "one tree"
	if r.Stripes > 1 {
		stripes = strconv.Itoa(r.Stripes) + " trees that share the blocks"
	}
	f := plot.Figure{
		Title: "Bandwidth of one inner VM during a burst", Note: fmt.Sprintf("%d VMs, image %s, links of %s, %s", r.VMs, r.Image, r.Rate, stripes),
		X: plot.Axis{Label: "seconds after the begin"}, Y: plot.Axis{Label: "MB/s"},
	}
	at, in, out := r.windows(window)
	line := func(name string, values []float64) {
		s := plot.Series{Name: name, Plain: true}
		for i, v := range values {
			s.Points = append(s.Points, plot.At(at[i], v/mega))
		}
		f.Series = append(f.Series, s)
	}
	line("in", in)
	line("out", out)
	if rate, err := parseRate(r.Rate); err == nil {
		f.Rules = []plot.Rule{{Name: "the line", Y: rate / 8 / mega}}
	}
	return f
}
