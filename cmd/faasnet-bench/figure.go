package main

import (
	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/plot"
)

func figureCommand() *cli.Command {
	return &cli.Command{
		Name:  "figure",
		Usage: "re-make a figure of the FaaSNet paper's evaluation, its numbers beside ours",
		Subcommands: []*cli.Command{
			figure14Command(),
			figure15Command(),
			figure16Command(),
			figure18Command(),
			figure20Command(),
		},
	}
}

// figureFlags are those that every figure has, and more.
func figureFlags(more ...cli.Flag) []cli.Flag {
	return append(more,
		&cli.StringFlag{Name: "json", Usage: "write results to `FILE`, as they come"},
		&cli.StringFlag{Name: "plot", Usage: "draw the figure into `DIR`, as SVG and PNG"},
		&cli.BoolFlag{Name: "quick", Usage: "measure as little as shows that it works; figures mean nothing"},
	)
}

// drawFigure draws f into the directory of --plot, if there is one.
func drawFigure(c *cli.Context, name string, f plot.Figure) error {
	dir := c.String("plot")
	if dir == "" {
		return nil
	}
	return f.Write(dir, name)
}

// quicken gives flags that were not set other values when --quick is.
func quicken(c *cli.Context, values map[string]string) error {
	if !c.Bool("quick") {
		return nil
	}
	for name, v := range values {
		if c.IsSet(name) {
			continue
		}
		if err := c.Set(name, v); err != nil {
			return err
		}
	}
	return nil
}
