package main

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/plot"
	"github.com/faasnet/faasnet/cmd/internal/sim"
)

// traceRow is a trace with one system.
type traceRow struct {
	Trace    string  `json:"trace"`
	System   string  `json:"system"`
	Form     string  `json:"form,omitempty"`
	VMs      int     `json:"vms"` // at most
	Rate     string  `json:"rate"`
	Registry string  `json:"registry_rate"`
	Image    string  `json:"image"`
	Recorded bool    `json:"recorded,omitempty"` // the image is a recorded conversion
	Starts   int     `json:"cold_starts"`
	Median   float64 `json:"ready_median_s"` // of cold starts
	P95      float64 `json:"ready_p95_s"`
	Max      float64 `json:"ready_max_s"`
	Response float64 `json:"response_max_s"`
	// Normal is how long after the begin of the largest burst responses take no
	// more than a tenth longer than without a cold start; 0: never.
	Normal  float64 `json:"back_to_normal_s"`
	Height  int     `json:"height_max"`
	Waiting int     `json:"waited_for_a_vm"`
	Egress  int64   `json:"registry_bytes"`
	Peers   int64   `json:"peer_bytes"`
	CPU     float64 `json:"cpu_s"`

	Parts     []sim.Minute `json:"parts,omitempty"`
	Provision []float64    `json:"provision_s,omitempty"`
}

// name is how figures call the system.
func (r *traceRow) name() string {
	return simRow{System: r.System, Stripes: stripesOf(r.Form), Recorded: r.Recorded}.name()
}

func simTraceCommand() *cli.Command {
	return &cli.Command{
		Name:  "trace",
		Usage: "Figs. 11 to 13: bursts of requests, with VMs that come and go",
		Description: `Requests come as in the paper's IoT trace or in its synthetic one, whoever waits for whom. One that
finds no idle VM starts the function on a new one. Links are shared out in steps of 20 ms: no
code of the product but that of the tree takes part.`,
		Flags: simFlags(
			&cli.StringSliceFlag{Name: "trace", Value: cli.NewStringSlice("iot", "synthetic"), Usage: "`TRACES`"},
			&cli.StringFlag{Name: "image", Value: "paper", Usage: "`IMAGE`: paper, or a test image"},
			&cli.IntFlag{Name: "vms", Value: 1000, Usage: "`NUMBER` of VMs that there can be"},
			&cli.DurationFlag{Name: "idle", Usage: "`TIME` after which an idle VM is taken away (default: 5m of iot, 1m of synthetic)"},
			systemsFlag("faasnet", "faasnet-one-tree", "faasnet-notree", "overlayfs"),
		),
		Action: func(c *cli.Context) error {
			rows, err := tracing(c)
			if err != nil {
				return err
			}
			if err := printTraces(c.App.Writer, rows); err != nil {
				return err
			}
			return plotTraces(c.String("plot"), rows)
		},
	}
}

// tracing simulates each trace with each system.
func tracing(c *cli.Context) ([]traceRow, error) {
	s, err := newSetting(c, c.String("image"))
	if err != nil {
		return nil, err
	}
	out, err := newReport[traceRow, traceRow](c.String("json"))
	if err != nil {
		return nil, err
	}
	for _, name := range c.StringSlice("trace") {
		shape, known := traces[name]
		if !known {
			return nil, usagef("no trace %q", name)
		}
		systems, err := waysOf(c, c.StringSlice("systems"))
		if err != nil {
			return nil, err
		}
		for _, y := range systems {
			b, err := s.burst(y, c.Int("vms"))
			if err != nil {
				return nil, err
			}
			t := sim.Trace{Burst: b, Rates: shape.rates, Length: shape.minutes * 60, Handle: shape.handle, Idle: shape.idle, Keep: shape.keep}
			if c.IsSet("idle") {
				t.Idle = c.Duration("idle").Seconds()
			}
			if c.Bool("quick") {
				t.Length = min(t.Length, shape.burst+60)
			}
			got, err := t.Run(1)
			if err != nil {
				return nil, err
			}
			row := traceRow{
				Trace: name, System: b.System, Form: string(b.Form), VMs: b.VMs, Rate: c.String("rate"), Registry: c.String("registry-rate"), Image: s.image,
				Recorded: b.Recorded, Starts: len(got.Provision), Median: median(got.Provision), P95: percentile(got.Provision, 0.95), Max: percentile(got.Provision, 1),
				Waiting: got.Waiting, Egress: got.Registry, Parts: got.Parts, Provision: got.Provision,
			}
			row.judge(shape)
			if err := out.add(row, sumTraces); err != nil {
				return nil, err
			}
		}
	}
	return out.Rows, nil
}

func sumTraces(rows []traceRow) []traceRow {
	out := make([]traceRow, len(rows))
	for i, r := range rows {
		r.Parts, r.Provision = nil, nil
		out[i] = r
	}
	return out
}

// judge finds how long the largest burst was felt.
func (r *traceRow) judge(shape traceShape) {
	for _, p := range r.Parts {
		r.Height = max(r.Height, p.Height)
		r.Response = max(r.Response, p.Max)
		if p.At < shape.burst {
			continue
		}
		if p.Mean > 1.1*shape.handle {
			r.Normal = 0
		} else if r.Normal == 0 && p.Mean > 0 {
			r.Normal = max(1, p.At-shape.burst)
		}
		if p.At > shape.burst+300 {
			break
		}
	}
}

func printTraces(w io.Writer, rows []traceRow) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "trace\tsystem\tcold starts\tmedian s\tp95 s\tlast s\tlongest response s\tnormal after s\theight\tGB from registry\tpaper\t")
	for _, r := range rows {
		height, normal := "-", "never"
		if r.Height > 0 {
			height = strconv.Itoa(r.Height)
		}
		if r.Normal > 0 {
			normal = fmt.Sprintf("%.0f", r.Normal)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%.2f\t%.2f\t%.2f\t%.1f\t%s\t%s\t%.1f\t%s\t\n", r.Trace, r.name(), r.Starts, r.Median, r.P95, r.Max, r.Response, normal, height,
			float64(r.Egress)/1e9, traces[r.Trace].paper[r.System])
	}
	return t.Flush()
}

// plotTraces draws response times, VMs and provisioning latency of each trace.
func plotTraces(dir string, rows []traceRow) error {
	if dir == "" {
		return nil
	}
	traces, groups := by(rows, func(r traceRow) string { return r.Trace })
	for _, name := range traces {
		response := plot.Figure{Title: "Response times, " + name + " trace", Note: "in virtual time", X: plot.Axis{Label: "minute"}, Y: plot.Axis{Label: "mean response time, s", Log: true}}
		cold := plot.Figure{Title: "Cold starts, " + name + " trace", Note: "in virtual time", X: plot.Axis{Label: "time to READY, s", Log: true}, Y: plot.Axis{Label: "share of cold starts, %"}}
		heights := plot.Figure{Title: "Tree height, " + name + " trace", Note: "in virtual time", X: plot.Axis{Label: "minute"}, Y: plot.Axis{Label: "levels of the tree"}}
		for _, r := range groups[name] {
			var times, levels []plot.Point
			for _, p := range r.Parts {
				if p.Mean > 0 {
					times = append(times, plot.At(p.At/60, p.Mean))
				}
				levels = append(levels, plot.At(p.At/60, float64(p.Height)))
			}
			response.Series = append(response.Series, plot.Series{Name: r.name(), Points: times, Plain: true})
			cold.Series = append(cold.Series, plot.Series{Name: r.name(), Kind: plot.Steps, Points: plot.CDF(r.Provision)})
			if r.System == sim.Tree {
				heights.Series = append(heights.Series, plot.Series{Name: r.name(), Kind: plot.Steps, Points: levels})
			}
		}
		for part, f := range map[string]plot.Figure{"response": response, "cold": cold, "height": heights} {
			if err := f.Write(dir, "sim-trace-"+name+"-"+part); err != nil {
				return err
			}
		}
	}
	return nil
}
