package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/cmd/internal/sim"
)

func simTimelineCommand() *cli.Command {
	return &cli.Command{
		Name:  "timeline",
		Usage: "Fig. 15: when each of 128 VMs has its first block, and is READY",
		Flags: simFlags(
			&cli.IntFlag{Name: "vms", Value: 128, Usage: "`NUMBER` of VMs"},
			&cli.StringFlag{Name: "image", Value: "paper", Usage: "`IMAGE`: paper, or a test image"},
			systemsFlag("faasnet", "faasnet-one-tree", "faasnet-notree"),
		),
		Action: func(c *cli.Context) error {
			vms := c.Int("vms")
			if c.Bool("quick") {
				vms = 8
			}
			rows, err := bursting(c, c.String("image"), []int{vms}, 1, c.StringSlice("systems"))
			if err != nil {
				return err
			}
			for _, r := range rows {
				var first []float64
				for _, s := range r.PerStart {
					first = append(first, s.First)
				}
				fmt.Fprintf(c.App.Writer, "%s: first block of a layer after %.2f s (first VM), %.2f s (median), %.2f s (last)\n",
					r.name(), percentile(first, 0), median(first), percentile(first, 1))
			}
			if err := printSim(c.App.Writer, same(rows), timelineInPaper); err != nil {
				return err
			}
			if err := plotStarts(c, "sim-timeline", "READY VMs", rows); err != nil {
				return err
			}
			return simFailures(rows)
		},
	}
}

// timelineInPaper is what Fig. 15 has.
func timelineInPaper(r simRow) string {
	switch {
	case r.VMs != 128:
	case r.System == sim.Tree:
		return "5.5 to 7 s, span 1.5"
	case r.System == sim.NoTree:
		return "span 16.4"
	}
	return ""
}
