package main

import (
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
			systemsFlag("faasnet", "faasnet-one-tree"),
		),
		Action: func(c *cli.Context) error {
			vms := c.Int("vms")
			if c.Bool("quick") {
				vms = 20
			}
			rows, err := bursting(c, c.String("image"), []int{vms}, c.Float64("starts"), c.StringSlice("systems"))
			if err != nil {
				return err
			}
			if err := printSim(c.App.Writer, same(rows), manyInPaper); err != nil {
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
