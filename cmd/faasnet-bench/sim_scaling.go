package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/cmd/internal/sim"
	"github.com/faasnet/faasnet/cmd/internal/tree"
)

// simSystem is a way to start functions, as --systems calls it.
type simSystem struct {
	name, system string
	form         tree.Form
	recorded     bool
}

// simSystems are what figures compare: two stripes, the paper's one tree, and
// those without.
var simSystems = []simSystem{
	{"faasnet", sim.Tree, tree.Striped, false},
	{"faasnet-one-tree", sim.Tree, tree.Complete, false},
	{"faasnet-rotate", sim.Tree, tree.Rotate, false},
	{"faasnet-notree", sim.NoTree, "", false},
	{"overlayfs", sim.FullPull, "", false},
}

// systemsOf finds systems by name.
func systemsOf(names []string) (out []simSystem, err error) {
	for _, name := range names {
		i := slices.IndexFunc(simSystems, func(y simSystem) bool { return y.name == name })
		if i < 0 {
			return nil, usagef("no system %q", name)
		}
		out = append(out, simSystems[i])
	}
	return out, nil
}

// waysOf finds systems by name, those of ours a second time if recorded conversions
// are wanted too.
func waysOf(c *cli.Context, names []string) (out []simSystem, err error) {
	found, err := systemsOf(names)
	for _, y := range found {
		out = append(out, y)
		if y.recorded = c.Bool("recorded") && y.system != sim.FullPull; y.recorded {
			out = append(out, y)
		}
	}
	return out, err
}

func systemsFlag(names ...string) cli.Flag {
	return &cli.StringSliceFlag{Name: "systems", Value: cli.NewStringSlice(names...), Usage: "`SYSTEMS`: faasnet, faasnet-one-tree (the paper's form), faasnet-rotate (and its algorithm), faasnet-notree, overlayfs"}
}

func simScalingCommand() *cli.Command {
	return &cli.Command{
		Name:  "scaling",
		Usage: "Fig. 14: 8 to 128 concurrent starts, and beyond",
		Flags: simFlags(
			&cli.IntSliceFlag{Name: "vms", Value: cli.NewIntSlice(1, 8, 16, 32, 64, 128), Usage: "`NUMBER` of VMs, each of which starts the function once"},
			&cli.StringFlag{Name: "image", Value: "paper", Usage: "`IMAGE`: paper, or a test image"},
			systemsFlag("faasnet", "faasnet-one-tree", "faasnet-notree", "overlayfs"),
			realFlag(),
		),
		Action: func(c *cli.Context) error {
			vms := c.IntSlice("vms")
			if c.Bool("quick") {
				vms = []int{1, 4}
			}
			rows, err := bursting(c, c.String("image"), vms, 1, c.StringSlice("systems"))
			if err != nil {
				return err
			}
			if err := printSim(c.App.Writer, same(rows), func(r simRow) string { return r.scalingInPaper() }); err != nil {
				return err
			}
			printFactors(c, rows)
			if c.IsSet("real") {
				points, err := calibrate(c, "")
				if err != nil {
					return err
				}
				if err := printCalibration(c.App.Writer, points); err != nil {
					return err
				}
			}
			if err := plotScaling(c, rows); err != nil {
				return err
			}
			return simFailures(rows)
		},
	}
}

// scalingInPaper is what Fig. 14 has.
func (r simRow) scalingInPaper() string {
	if factor := paperAt128[r.System]; factor > 0 && r.VMs == 128 {
		return fmt.Sprintf("%.1f s", factor*paperBaseline/paperAt128[sim.FullPull])
	}
	if r.System == sim.Tree && r.VMs == 128 {
		return fmt.Sprintf("%.1f s", paperBaseline/paperAt128[sim.FullPull])
	}
	return ""
}

// printFactors prints how much faster ours is than others, beside the paper's.
func printFactors(c *cli.Context, rows []simRow) {
	for _, ours := range rows {
		if ours.System != sim.Tree {
			continue
		}
		for _, r := range rows {
			if r.System == sim.Tree || r.VMs != ours.VMs || r.System == sim.NoTree && r.Recorded != ours.Recorded {
				continue
			}
			fmt.Fprintf(c.App.Writer, "%d VMs: %s / %s = %.1f", r.VMs, r.name(), ours.name(), r.Median/ours.Median)
			if f := paperAt128[r.System]; f > 0 && r.VMs == 128 {
				fmt.Fprintf(c.App.Writer, " (paper: %.1f)", f)
			}
			fmt.Fprintln(c.App.Writer)
		}
	}
}

// bursting simulates bursts of each size with each system.
func bursting(c *cli.Context, image string, vms []int, starts float64, systems []string) ([]simRow, error) {
	s, err := newSetting(c, image)
	if err != nil {
		return nil, err
	}
	out, err := newReport[simRow, simRow](c.String("json"))
	if err != nil {
		return nil, err
	}
	ways, err := waysOf(c, systems)
	if err != nil {
		return nil, err
	}
	for _, n := range vms {
		for _, y := range ways {
			b, err := s.burst(y, n)
			if err != nil {
				return nil, err
			}
			b.Starts = int(float64(n) * starts)
			live := s.row
			if limit := c.Int("live"); limit > 0 && n > limit {
				live = s.ruled
			}
			row, err := live(c.Context, b, c.String("rate"), c.String("registry-rate"))
			if err != nil {
				return nil, err
			}
			if err := out.add(row, same); err != nil {
				return nil, err
			}
		}
	}
	return out.Rows, nil
}

// simFailures is an error when a start has failed.
func simFailures(rows []simRow) error {
	var errs []error
	for _, r := range rows {
		if r.Failed > 0 {
			errs = append(errs, fmt.Errorf("%s, %d VMs: %d starts failed", r.name(), r.VMs, r.Failed))
		}
	}
	return errors.Join(errs...)
}
