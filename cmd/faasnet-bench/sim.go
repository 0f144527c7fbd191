package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/cmd/internal/sim"
	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/fs/block"
)

func simCommand() *cli.Command {
	return &cli.Command{
		Name:  "sim",
		Usage: "the paper's figures in virtual time, with more VMs than this machine carries",
		Description: `The fetcher, relay, tree client, coordinator, registry client and store that VMs run, of many VMs
in one process, over a network in memory and in virtual time. What VMs compute besides takes the
CPU time that it takes on this machine, which is measured once, kept, and printed.`,
		Subcommands: []*cli.Command{simConstantsCommand(), simScalingCommand(), simTimelineCommand(), simManyCommand(), simTraceCommand(), simCalibrateCommand()},
	}
}

// simFlags are those that all of the paper's figures have.
func simFlags(more ...cli.Flag) []cli.Flag {
	return slices.Concat(constantsFlags(), []cli.Flag{
		&cli.StringFlag{Name: "rate", Value: "1gbit", Usage: "`RATE` of the link of each VM"},
		&cli.StringFlag{Name: "registry-rate", Value: "5gbit", Usage: "`RATE` of the link of the registry"},
		&cli.BoolFlag{Name: "recorded", Usage: "ours with a recorded conversion too: what a start reads is in one layer, and fetched while the container is made"},
		&cli.IntFlag{Name: "scale", Value: 32, Usage: "`NUMBER` by which bytes and rates are divided, so that they fit into memory"},
		&cli.BoolFlag{Name: "quick", Usage: "few VMs, to see that it works"},
		jsonFlag(),
		&cli.StringFlag{Name: "plot", Usage: "draw the figure into `DIR`, as SVG and PNG"},
	}, more)
}

func jsonFlag() cli.Flag {
	return &cli.StringFlag{Name: "json", Usage: "write results to `FILE`, after each row"}
}

// simRow is one burst in virtual time. Bytes are at the real size, of all VMs.
type simRow struct {
	System   string  `json:"system"`
	Form     string  `json:"form,omitempty"`
	Stripes  int     `json:"stripes,omitempty"`
	VMs      int     `json:"vms"`
	Starts   int     `json:"starts"`
	Rate     string  `json:"rate"`
	Registry string  `json:"registry_rate"`
	Recorded bool    `json:"recorded,omitempty"` // the image is a recorded conversion
	Image    string  `json:"image"`
	First    float64 `json:"ready_first_s"`
	Median   float64 `json:"ready_median_s"`
	P95      float64 `json:"ready_p95_s"`
	Max      float64 `json:"ready_max_s"`
	Egress   int64   `json:"registry_bytes"`
	Peers    int64   `json:"peer_bytes"`
	CPU      float64 `json:"cpu_s"`
	Depth    int     `json:"depth"`
	Failed   int     `json:"failed"`
	Scale    int     `json:"scale"`
	Wall     float64 `json:"simulated_in_s"`
	Rule     bool    `json:"by_rule,omitempty"` // computed, not lived through by the product

	PerStart []sim.Begun `json:"per_start,omitempty"`
}

// name is how a system is called where a tree may have one stripe or two.
func (r simRow) name() string {
	name := r.System
	if name == sim.Tree && r.Stripes == 1 {
		name += ": one tree"
	}
	return called(name, r.Recorded)
}

// setting is what bursts of a figure have in common.
type setting struct {
	k     constants
	image string // paper, or that of a test image
	of    string // whose constants the function has
	c     *cli.Context
}

// newSetting reads the flags. The function of an image that is not a test image
// costs what that of image b does.
func newSetting(c *cli.Context, image string) (s setting, err error) {
	s = setting{image: image, of: image, c: c}
	if _, paper := paperImages[image]; paper {
		s.of = "b"
	}
	if s.k, err = constantsOf(c, s.of); err == nil {
		err = s.k.print(c.App.Writer, s.of)
	}
	return s, err
}

// burst makes the burst of a system.
func (s setting) burst(y simSystem, vms int) (b sim.Burst, err error) {
	f, system := s.k.Functions[s.of], y.system
	b = sim.Burst{
		System: system, Form: y.form, Recorded: y.recorded, VMs: vms, Cores: 2, Scale: s.c.Int("scale"),
		Image: reads(f.Image, s.of), Costs: s.k.Costs, Start: f.Ours,
	}
	if size := sim.BlockSize / max(1, b.Scale); b.Scale < 1 || sim.BlockSize%b.Scale != 0 || block.ValidSize(size) != nil {
		return b, usagef("--scale %d: not a power of two between 1 and %d", b.Scale, sim.BlockSize/block.MinSize)
	}
	if i, paper := paperImages[s.image]; paper {
		b.Start.Unpack = f.Floor.Unpack * float64(i.Bytes) / float64(f.Image.Bytes)
		b.Start.Serve *= float64(i.Blocks) / float64(max(1, f.Image.Blocks))
		b.Image = i
		b.Image.Section = f.Image.Section
	}
	if y.recorded {
		b.Image = recorded(b.Image, f)
	}
	if system == sim.FullPull {
		unpack := b.Start.Unpack
		if b.Start = f.Floor; unpack > 0 {
			b.Start.Unpack = unpack
		}
	}
	if b.Rate, err = bits(s.c.String("rate")); err == nil {
		b.Registry, err = bits(s.c.String("registry-rate"))
	}
	return b, err
}

func bits(rate string) (int64, error) {
	r, err := parseRate(rate)
	return int64(r), err
}

// row simulates a burst.
func (s setting) row(ctx context.Context, b sim.Burst, rate, registry string) (r simRow, err error) {
	f, err := simulate(ctx, b)
	if err != nil {
		return r, err
	}
	return s.figures(b, f, rate, registry), nil
}

// ruled computes a burst by rule.
func (s setting) ruled(_ context.Context, b sim.Burst, rate, registry string) (r simRow, err error) {
	f, err := b.Flow()
	if err != nil {
		return r, err
	}
	r = s.figures(b, f, rate, registry)
	r.Rule = true
	return r, nil
}

// figures sums up what came of a burst.
func (s setting) figures(b sim.Burst, f sim.Figures, rate, registry string) simRow {
	r := simRow{
		System: b.System, VMs: b.VMs, Starts: len(f.Starts), Rate: rate, Registry: registry, Image: s.image, Recorded: b.Recorded,
		Egress: f.Registry, Peers: f.Peers, CPU: f.CPU, Depth: f.Depth, Scale: b.Scale, Wall: f.Wall,
	}
	if b.System == sim.Tree {
		r.Form, r.Stripes = string(b.Form), stripesOf(string(b.Form))
	}
	var ready []float64
	for _, v := range f.Starts {
		if v.Error != "" {
			r.Failed++
			continue
		}
		ready = append(ready, v.Ready)
	}
	r.First, r.Median, r.P95, r.Max = percentile(ready, 0), median(ready), percentile(ready, 0.95), percentile(ready, 1)
	r.PerStart = f.Starts
	fmt.Fprintf(os.Stderr, "%v: READY after %.2f to %.2f s, simulated in %.0f s\n", b, r.First, r.Max, r.Wall)
	return r
}

// stripesOf is how many stripes a form of trees has.
func stripesOf(form string) int {
	if form == string(tree.Striped) {
		return 2
	}
	return 1
}

// same is the summary of rows that are not repeated: a seed decides nothing but
// the order of what happens at one moment.
func same(rows []simRow) []simRow {
	out := make([]simRow, len(rows))
	for i, r := range rows {
		r.PerStart = nil
		out[i] = r
	}
	return out
}

// printSim prints rows, and what the paper has beside them.
func printSim(w io.Writer, rows []simRow, paper func(simRow) string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "system\tVMs\tstarts\tfirst s\tmedian s\tp95 s\tlast s\tspan s\tMB from registry\tMB from VMs\tCPU s\tdepth\tfailed\tpaper\t")
	for _, r := range rows {
		depth := "-"
		if r.Depth > 0 {
			depth = strconv.Itoa(r.Depth)
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.0f\t%.0f\t%.0f\t%s\t%d\t%s\t\n", r.name(), r.VMs, r.Starts, r.First, r.Median, r.P95, r.Max, r.Max-r.First,
			float64(r.Egress)/1e6, float64(r.Peers)/1e6, r.CPU, depth, r.Failed, paper(r))
	}
	return t.Flush()
}
