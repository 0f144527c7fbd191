package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/plot"
	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/results"
)

func reportCommand() *cli.Command {
	return &cli.Command{
		Name:  "report",
		Usage: "write docs/benchmarks.md out of results",
		Description: `Reads every file of --json in a directory, whatever its name: the command that wrote it is in it. Bursts
of one image over one rate are summed up together, wherever they were written. SVG files in the
directory are linked where a command of their name measured (figure-17.svg, sim-many.svg). What was
not measured is said to be missing.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "results", Value: ".cache/results", Usage: "`DIR` with the files of --json"},
			&cli.StringFlag{Name: "out", Value: "docs/benchmarks.md", Usage: "`FILE` to write; its plots go into the directory of the same name"},
		},
		Action: func(c *cli.Context) error {
			in, err := loadResults(c.String("results"))
			if err != nil {
				return err
			}
			unexplained, err := results.Write(in, c.String("out"))
			if err != nil {
				return err
			}
			for _, key := range unexplained {
				fmt.Fprintf(os.Stderr, "another system is better and internal/results/why.md does not say why: %s\n", key)
			}
			return nil
		},
	}
}

// loadResults reads a directory of results, sums up its bursts and draws its
// figures.
func loadResults(dir string) (in results.Input, err error) {
	files, err := results.Load(dir)
	if err != nil {
		return in, err
	}
	var bursts pool
	for _, f := range files {
		if f.Command() == "burst" || f.Command() == "compare" {
			rows, err := rowsOf[burstRow](f)
			if err != nil {
				return in, err
			}
			bursts.add(rows)
		}
		drawn, err := drawResults(f)
		if err != nil {
			return in, err
		}
		in.Plots = append(in.Plots, drawn...)
	}
	in.Files = files
	if in.Bursts, err = bursts.groups(); err != nil {
		return in, err
	}
	drawn, err := drawnBefore(dir, in)
	in.Plots = append(in.Plots, drawn...)
	return in, err
}

// drawnBefore finds SVG files of commands that measured, by their names:
// sim-many.svg and sim-many-more.svg are of sim many.
func drawnBefore(dir string, in results.Input) (plots []results.Plot, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.svg"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".svg")
		if slices.ContainsFunc(in.Plots, func(p results.Plot) bool { return p.Name == name }) {
			continue // drawn again, from the results
		}
		i := slices.IndexFunc(in.Files, func(f results.File) bool {
			c := strings.ReplaceAll(f.Command(), " ", "-")
			return name == c || strings.HasPrefix(name, c+"-")
		})
		if i < 0 {
			continue
		}
		svg, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		plots = append(plots, results.Plot{Command: in.Files[i].Command(), Name: name, SVG: svg})
	}
	return plots, nil
}

func rowsOf[R any](f results.File) ([]R, error) {
	var r report[R, json.RawMessage]
	if err := json.Unmarshal(f.Text, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	return r.Rows, nil
}

// drawResults draws what figure commands measured.
func drawResults(f results.File) ([]results.Plot, error) {
	var figures map[string]plot.Figure
	var err error
	switch f.Command() {
	case "figure 14":
		figures, err = redraw(f, func(rows []burstRow) map[string]plot.Figure { return one("figure-14", plot14(sum14(rows))) })
	case "figure 15":
		figures, err = redraw(f, func(rows []figure15Row) map[string]plot.Figure { return one("figure-15", plot15(rows)) })
	case "figure 16":
		figures, err = redraw(f, func(rows []figure16Row) map[string]plot.Figure {
			all := map[string]plot.Figure{}
			for _, r := range rows {
				if r.Rep == 0 {
					all["figure-16-"+r.Form] = plot16(r)
				}
			}
			return all
		})
	case "figure 18":
		figures, err = redraw(f, func(rows []figure18Row) map[string]plot.Figure { return one("figure-18", plot18(sum18(rows))) })
	case "figure 20":
		figures, err = redraw(f, func(rows []figure20Row) map[string]plot.Figure { return one("figure-20", plot20(sum20(rows))) })
	}
	var plots []results.Plot
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		plots = append(plots, results.Plot{Command: f.Command(), Name: name, Figure: figures[name]})
	}
	return plots, err
}

func one(name string, f plot.Figure) map[string]plot.Figure { return map[string]plot.Figure{name: f} }

func redraw[R any](f results.File, draw func([]R) map[string]plot.Figure) (map[string]plot.Figure, error) {
	rows, err := rowsOf[R](f)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return draw(rows), nil
}
