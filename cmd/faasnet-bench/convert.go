package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/script/images"
	"github.com/faasnet/faasnet/script/lab"
)

// convertRow is one conversion. bytes_in are those of the source's layers.
type convertRow struct {
	System   string  `json:"system"`
	Rep      int     `json:"rep"`
	Image    string  `json:"image"`
	Seconds  float64 `json:"seconds"`
	CPU      float64 `json:"cpu_s"`
	BytesIn  int64   `json:"bytes_in"`
	BytesOut int64   `json:"bytes_out"`
}

// convertSummary is a system's medians. Speedup is the median over
// repetitions of stargz's seconds divided by this system's.
type convertSummary struct {
	System   string  `json:"system"`
	Image    string  `json:"image"`
	Seconds  float64 `json:"seconds"`
	CPU      float64 `json:"cpu_s"`
	BytesIn  int64   `json:"bytes_in"`
	BytesOut int64   `json:"bytes_out"`
	Size     float64 `json:"size_ratio"`
	Speedup  float64 `json:"speedup_over_stargz"`
}

// converter converts the image src of a containerd to dst of the same one.
type converter func(c *lab.Containerd, t lab.Tools, src, dst string) []string

var converters = map[string]converter{
	"stargz": func(c *lab.Containerd, _ lab.Tools, src, dst string) []string {
		return []string{"ctr-remote", "--address", c.Address(), "image", "convert", "--estargz", "--oci", src, dst}
	},
	"faasnet": func(c *lab.Containerd, t lab.Tools, src, dst string) []string {
		return []string{filepath.Join(t.Product, "faasnet"), "convert", "--address", c.Address(), "--no-reuse", "--quiet", "containerd://" + src, "containerd://" + dst}
	},
}

func convertCommand() *cli.Command {
	return &cli.Command{
		Name:  "convert",
		Usage: "convert an image with each system, from and to the content store of one containerd",
		Description: `Both convert the same gzip layers; caches are dropped before each conversion, and the result
is removed after it. Seconds are those of the command; CPU seconds those of the command and
of containerd.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "image", Value: "b", Usage: "test `IMAGE` to convert"},
			&cli.StringSliceFlag{Name: "systems", Value: cli.NewStringSlice("stargz", "faasnet"), Usage: "`SYSTEMS` to compare"},
			&cli.IntFlag{Name: "reps", Value: 3, Usage: "`NUMBER` of repetitions"},
			&cli.StringFlag{Name: "json", Usage: "write results to `FILE`, after each conversion"},
		},
		Action: func(c *cli.Context) error {
			return convert(c.Context, c.App.Writer, c.String("image"), c.StringSlice("systems"), c.Int("reps"), c.String("json"))
		},
	}
}

func convert(ctx context.Context, w io.Writer, image string, systems []string, reps int, file string) (err error) {
	for _, s := range systems {
		if converters[s] == nil {
			return usagef("no system %q", s)
		}
	}
	if !images.IsName(image) {
		return usagef("image %q: not one of %v", image, images.Names())
	}
	out, err := newReport[convertRow, convertSummary](file)
	if err != nil {
		return err
	}
	b, err := newBench(ctx)
	if err != nil {
		return err
	}
	defer b.close(&err)
	layout, err := buildImage(ctx, image)
	if err != nil {
		return err
	}
	h, err := b.Host("vm", nil)
	if err != nil {
		return err
	}
	r, err := h.Registry(ctx, "")
	if err != nil {
		return err
	}
	src, err := r.Push(ctx, layout, image+":orig")
	if err != nil {
		return err
	}
	hosts, err := r.HostsDir()
	if err != nil {
		return err
	}
	c, err := h.Containerd(ctx, lab.Current, hosts, nil)
	if err != nil {
		return err
	}
	if _, err := c.Ctr(ctx, "content", "fetch", "--hosts-dir", hosts, src); err != nil {
		return err
	}
	for rep := range reps {
		for _, system := range systems {
			row, err := convertOnce(ctx, h, c, b.Tools(), system, src)
			if err != nil {
				return fmt.Errorf("%s: %w", system, err)
			}
			row.Rep, row.Image = rep, image
			fmt.Fprintf(os.Stderr, "%-8s run %d: %6.1f s, %6.1f CPU s, %6.1f MB\n", system, rep+1, row.Seconds, row.CPU, float64(row.BytesOut)/1e6)
			if err := out.add(row, sumConversions); err != nil {
				return err
			}
		}
	}
	return printConversions(w, out.Summary)
}

func convertOnce(ctx context.Context, h *lab.Host, c *lab.Containerd, t lab.Tools, system, src string) (row convertRow, err error) {
	dst := src + "-" + system
	row.System = system
	if row.BytesIn, err = layerBytes(ctx, c, src); err != nil {
		return row, err
	}
	if err := dropCaches(); err != nil {
		return row, err
	}
	cpu, err := h.CPU()
	if err != nil {
		return row, err
	}
	argv := converters[system](c, t, src, dst)
	begin := time.Now()
	if _, err := h.Run(ctx, argv[0], argv[1:]...); err != nil {
		return row, err
	}
	row.Seconds = time.Since(begin).Seconds()
	after, err := h.CPU()
	if err != nil {
		return row, err
	}
	row.CPU = (after - cpu).Seconds()
	if row.BytesOut, err = layerBytes(ctx, c, dst); err != nil {
		return row, err
	}
	_, err = c.Ctr(ctx, "image", "rm", "--sync", dst) // the layers go too: the next repetition converts them again
	return row, err
}

func layerBytes(ctx context.Context, c *lab.Containerd, ref string) (n int64, err error) {
	layers, err := c.Layers(ctx, ref)
	for _, l := range layers {
		n += l.Size
	}
	return n, err
}

func sumConversions(rows []convertRow) (out []convertSummary) {
	systems, groups := by(rows, func(r convertRow) string { return r.System })
	for _, s := range systems {
		g := groups[s]
		sum := convertSummary{
			System: s, Image: g[0].Image,
			Seconds: median(column(g, func(r convertRow) float64 { return r.Seconds })),
			CPU:     median(column(g, func(r convertRow) float64 { return r.CPU })),
			BytesIn: g[0].BytesIn, BytesOut: median(column(g, func(r convertRow) int64 { return r.BytesOut })),
			Speedup: median(ratios(rows, func(r convertRow) int { return r.Rep }, func(r convertRow) string { return r.System }, "stargz", s,
				func(r convertRow) float64 { return r.Seconds })),
		}
		sum.Size = float64(sum.BytesOut) / float64(sum.BytesIn)
		out = append(out, sum)
	}
	return out
}

func printConversions(w io.Writer, sums []convertSummary) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "system\timage\tseconds\tCPU s\tMB in\tMB out\tsize\tspeed\t")
	for _, s := range sums {
		fmt.Fprintf(t, "%s\t%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.3f\t%.2fx\t\n", s.System, s.Image, s.Seconds, s.CPU, float64(s.BytesIn)/1e6, float64(s.BytesOut)/1e6, s.Size, s.Speedup)
	}
	return t.Flush()
}
