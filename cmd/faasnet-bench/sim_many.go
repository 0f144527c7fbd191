package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/cmd/internal/sim"
)

func simManyCommand() *cli.Command {
	return &cli.Command{
		Name:  "many",
		Usage: "Fig. 17: 2,500 starts at once on 1,000 VMs",
		Flags: simFlags(
			&cli.IntFlag{Name: "vms", Value: 1000, Usage: "`NUMBER` of VMs"},
			&cli.Float64Flag{Name: "starts", Value: 2.5, Usage: "`NUMBER` of starts on each VM"},
			&cli.StringFlag{Name: "image", Value: "paper-428", Usage: "`IMAGE`: paper-428, paper, or a test image"},
			&cli.IntFlag{Name: "live", Value: 128, Usage: "most `VMS` that the product's code runs on; more are computed by rule"},
			&cli.IntSliceFlag{Name: "check", Value: cli.NewIntSlice(8, 32, 128), Usage: "`NUMBER` of VMs with which the rule is held to the product's code"},
			systemsFlag("faasnet", "faasnet-one-tree"),
		),
		Action: func(c *cli.Context) error {
			vms, check := c.Int("vms"), c.IntSlice("check")
			if c.Bool("quick") {
				vms, check = 20, []int{8}
			}
			rows, err := bursting(c, c.String("image"), []int{vms}, c.Float64("starts"), c.StringSlice("systems"))
			if err != nil {
				return err
			}
			if err := printSim(c.App.Writer, same(rows), manyInPaper); err != nil {
				return err
			}
			if err := checkRule(c, check); err != nil {
				return err
			}
			if err := plotStarts(c, "sim-many", fmt.Sprintf("%.0f starts on %d VMs", float64(vms)*c.Float64("starts"), vms), rows); err != nil {
				return err
			}
			return simFailures(rows)
		},
	}
}

// manyInPaper is what Fig. 17 has.
func manyInPaper(r simRow) string {
	switch {
	case r.VMs != 1000:
	case r.System == sim.Tree:
		return "5.1 to 8.3 s"
	case r.System == sim.NoTree:
		return "times out"
	}
	return ""
}

// checkRule prints by how much the rule is off where the product's code can be
// lived through.
func checkRule(c *cli.Context, vms []int) error {
	s, err := newSetting(c, c.String("image"))
	if err != nil {
		return err
	}
	ways, err := waysOf(c, c.StringSlice("systems"))
	if err != nil {
		return err
	}
	for _, n := range vms {
		for _, y := range ways {
			if y.system != sim.Tree {
				continue
			}
			b, err := s.burst(y, n)
			if err != nil {
				return err
			}
			b.Starts = int(float64(n) * c.Float64("starts"))
			live, err := s.row(c.Context, b, "", "")
			if err != nil {
				return err
			}
			rule, err := s.ruled(c.Context, b, "", "")
			if err != nil {
				return err
			}
			fmt.Fprintf(c.App.Writer, "rule beside the product's code, %d VMs, %s: median %.2f and %.2f s (%+.0f %%), last %.2f and %.2f s (%+.0f %%)\n", n, live.name(),
				rule.Median, live.Median, (rule.Median/live.Median-1)*100, rule.Max, live.Max, (rule.Max/live.Max-1)*100)
		}
	}
	return nil
}
