package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/plot"
)

// plotStarts draws how many starts are READY by when.
func plotStarts(c *cli.Context, file, title string, rows []simRow) error {
	dir := c.String("plot")
	if dir == "" {
		return nil
	}
	f := plot.Figure{Title: title, Note: simNote(c), X: plot.Axis{Label: "time, s"}, Y: plot.Axis{Label: "starts that are READY"}}
	for _, r := range rows {
		var ready []float64
		for _, s := range r.PerStart {
			if s.Error == "" {
				ready = append(ready, s.Ready)
			}
		}
		f.Series = append(f.Series, plot.Series{Name: r.name(), Kind: plot.Steps, Points: plot.Count(ready)})
	}
	return f.Write(dir, file)
}

// plotScaling draws the time to READY by the number of VMs.
func plotScaling(c *cli.Context, rows []simRow) error {
	dir := c.String("plot")
	if dir == "" {
		return nil
	}
	f := plot.Figure{Title: "Concurrent starts", Note: simNote(c), X: plot.Axis{Label: "VMs", Log: true, Ticks: []float64{1, 8, 16, 32, 64, 128, 256}}, Y: plot.Axis{Label: "time to READY, s", Log: true}}
	names, groups := by(rows, simRow.name)
	for _, name := range names {
		s := plot.Series{Name: name}
		for _, r := range groups[name] {
			s.Points = append(s.Points, plot.Point{X: float64(r.VMs), Y: r.Median, Low: r.First, High: r.Max})
		}
		f.Series = append(f.Series, s)
	}
	if c.String("image") == "paper" {
		f.Series = append(f.Series, plot.Series{Name: "paper: faasnet", Kind: plot.Points, Points: []plot.Point{plot.At(128, paperBaseline/13.4)}},
			plot.Series{Name: "paper: overlayfs", Kind: plot.Points, Points: []plot.Point{plot.At(128, paperBaseline)}})
	}
	return f.Write(dir, "sim-scaling")
}

func simNote(c *cli.Context) string {
	return fmt.Sprintf("in virtual time; image %s, links %s, registry %s", c.String("image"), c.String("rate"), c.String("registry-rate"))
}
