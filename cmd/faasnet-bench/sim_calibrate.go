package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/cmd/internal/sim"
	"github.com/faasnet/faasnet/cmd/internal/tree"
)

// realPoint is a measured burst and the same one in virtual time.
type realPoint struct {
	simRow
	Real       float64 `json:"measured_median_s"`
	RealEgress int64   `json:"measured_registry_bytes"`
	RealCPU    float64 `json:"measured_cpu_s"`
	Off        float64 `json:"error_percent"` // of the median
}

// calibrationScale is small: headers are not divided by it, and with 8 a start of
// image c seems to fetch 6 % more than it does.
const calibrationScale = 2

func simCalibrateCommand() *cli.Command {
	return &cli.Command{
		Name:  "calibrate",
		Usage: "simulate bursts that were measured, and print by how much the simulation is wrong",
		Description: `All VMs and the registry of a measured burst shared this machine's cores, so they do in virtual
time. Nothing is fitted: the constants are those of single starts.`,
		Flags: append(constantsFlags(), realFlag(), jsonFlag()),
		Action: func(c *cli.Context) error {
			points, err := calibrate(c, c.String("json"))
			if err != nil {
				return err
			}
			return printCalibration(c.App.Writer, points)
		},
	}
}

func realFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "real", Usage: "`FILE` that burst --json wrote; its bursts are simulated too, and the error printed"}
}

// calibrate simulates the bursts of the files that --real names.
func calibrate(c *cli.Context, file string) ([]realPoint, error) {
	out, err := newReport[realPoint, realPoint](file)
	if err != nil {
		return nil, err
	}
	for _, name := range c.StringSlice("real") {
		var measured report[burstRow, burstSummary]
		if err := readJSON(name, &measured); err != nil {
			return nil, err
		}
		for _, m := range measured.Summary {
			if m.Full || m.Kill != (kill{}) || m.FailedVMs > 0 {
				continue
			}
			k, err := constantsOf(c, m.Image)
			if err != nil {
				return nil, err
			}
			p, ok, err := k.again(c.Context, m, measured.Machine.CPUs)
			if err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
			if err := out.add(p, func(all []realPoint) []realPoint { return all }); err != nil {
				return nil, err
			}
		}
	}
	return out.Rows, nil
}

// again lives through a measured burst in virtual time; false: its system is not
// one of ours.
func (k *constants) again(ctx context.Context, m burstSummary, cores int) (p realPoint, ok bool, err error) {
	f := k.Functions[m.Image]
	b := sim.Burst{
		System: m.System, Form: tree.Form(m.Form), VMs: m.VMs, Cores: cores, Shared: true, Scale: calibrationScale,
		Image: reads(f.Image, m.Image), Costs: k.Costs, Start: f.Ours,
	}
	b.Costs.Serve = f.Serve
	if b.Recorded = m.Recorded; b.Recorded {
		b.Image = f.Recorded
	}
	switch m.System {
	case sim.Tree, sim.NoTree:
	case sim.FullPull:
		b.Start = f.Floor
	default:
		return p, false, nil
	}
	if b.Rate, err = bits(m.Rate); err == nil {
		b.Registry, err = bits(cmp.Or(m.RegistryRate, m.Rate))
	}
	if err != nil {
		return p, false, err
	}
	s := setting{k: *k, image: m.Image, of: m.Image}
	row, err := s.row(ctx, b, m.Rate, m.RegistryRate)
	p = realPoint{simRow: row, Real: m.ReadyMedian, RealEgress: m.RegistryBytes, RealCPU: m.CPU}
	p.Off = (row.Median/m.ReadyMedian - 1) * 100
	p.PerStart = nil
	return p, true, err
}

func printCalibration(w io.Writer, points []realPoint) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "image\trate\tsystem\tVMs\tmeasured s\tsimulated s\terror %\tmeasured MB\tsimulated MB\tmeasured CPU s\tsimulated CPU s\t")
	var off []float64
	for _, p := range points {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%.2f\t%.2f\t%+.0f\t%.0f\t%.0f\t%.1f\t%.1f\t\n", p.Image, p.Rate, p.name(), p.VMs,
			p.Real, p.Median, p.Off, float64(p.RealEgress)/1e6, float64(p.Egress)/1e6, p.RealCPU, p.CPU)
		off = append(off, max(p.Off, -p.Off))
	}
	fmt.Fprintf(t, "error of the medians: half of them below %.0f %%, the largest %.0f %%\n", median(off), percentile(off, 1))
	return t.Flush()
}
