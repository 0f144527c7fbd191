package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/plot"
	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/rivals"
	"github.com/faasnet/faasnet/script/lab"
)

// figure20Row is one start of a function. Bytes are until READY.
type figure20Row struct {
	System        string  `json:"system"`
	Recorded      bool    `json:"recorded,omitempty"`
	Image         string  `json:"image"`
	Block         int     `json:"block_size,omitempty"` // in bytes; 0: a full pull
	Rate          string  `json:"rate"`
	Rep           int     `json:"rep"`
	Ready         float64 `json:"ready_s"`
	RegistryBytes int64   `json:"registry_bytes"` // that the registry's port sent
	Fetched       int64   `json:"fetched_bytes"`  // of blocks, as they travel
	Read          int64   `json:"read_bytes"`     // that the kernel asked our file system for
}

// figure20Sum has medians. OfPull compares the registry's bytes with a full
// pull's, in the same repetition.
type figure20Sum struct {
	System        string  `json:"system"` // "paper: ..." is what the paper says
	Recorded      bool    `json:"recorded,omitempty"`
	Image         string  `json:"image"`
	Block         int     `json:"block_size,omitempty"`
	Ready         float64 `json:"ready_median_s,omitempty"`
	RegistryBytes int64   `json:"registry_bytes,omitempty"`
	Read          int64   `json:"read_bytes,omitempty"`
	OfPull        float64 `json:"of_full_pull"`
	OverRead      float64 `json:"fetched_over_read,omitempty"`
}

var paper20 = figure20Sum{System: "paper: faasnet", Image: "728 MB", Block: 512 << 10, OfPull: 1 - 0.839}

func figure20Command() *cli.Command {
	return &cli.Command{
		Name:  "20",
		Usage: "bytes fetched until READY by block size",
		Description: `Each image is converted with each block size, and its function started on one empty VM without a tree.
Bytes are those that left the registry until READY, beside those of a full pull and beside those
that the kernel asked our file system for.`,
		Flags: append(variantFlags(), figureFlags(
			&cli.StringSliceFlag{Name: "images", Value: cli.NewStringSlice("b", "c"), Usage: "test `IMAGES`"},
			&cli.IntSliceFlag{Name: "block-sizes", Value: cli.NewIntSlice(64, 128, 256, 512, 1024, 2048), Usage: "`KiB` of a block"},
			&cli.StringFlag{Name: "rate", Value: "200mbit", Usage: "`RATE` of each link, as tc says it"},
			&cli.IntFlag{Name: "reps", Value: 1, Usage: "`NUMBER` of repetitions"},
		)...),
		Action: func(c *cli.Context) error {
			if err := quicken(c, map[string]string{"images": "a", "block-sizes": "64,512"}); err != nil {
				return err
			}
			out, err := newReport[figure20Row, figure20Sum](c.String("json"))
			if err != nil {
				return err
			}
			for _, image := range c.StringSlice("images") {
				if err := figure20(c, image, out); err != nil {
					return fmt.Errorf("image %s: %w", image, err)
				}
			}
			if err := print20(c.App.Writer, out.Summary); err != nil {
				return err
			}
			return drawFigure(c, "figure-20", plot20(out.Summary))
		},
	}
}

func figure20(c *cli.Context, image string, out *report[figure20Row, figure20Sum]) error {
	p := burstPlan{Image: "a", Rate: c.String("rate"), RegistryRate: c.String("rate")} // b.more adds the image
	b, err := figureBursts(c, p, []string{"overlayfs", withoutTree}, []int{1}, nil)
	if err != nil {
		return err
	}
	var sizes []int
	for _, kib := range c.IntSlice("block-sizes") {
		sizes = append(sizes, kib<<10)
	}
	pull, ours := b.plan[0], b.plan[1:] // plain, recorded or both
	b.plan = []burstPlan{pull}
	for range sizes {
		b.plan = append(b.plan, ours...)
	}
	next := 0 // of those of ours
	b.act = func(ctx context.Context, u *burst, row *burstRow) error {
		r := figure20Row{System: u.plan.System, Recorded: u.plan.Recorded, Image: image, Rate: u.plan.Rate, Rep: row.Rep}
		tag := original
		if u.plan.System != pull.System {
			r.Block = sizes[next/len(ours)%len(sizes)]
			tag = blockTag(r.Block)
			if r.Recorded {
				tag += rivals.Recorded
			}
			next++
		}
		if err := u.startOne(ctx, u.server.Addr+"/"+image+":"+tag, &r); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "image %s, %s, blocks of %4d KiB: READY after %.2f s, %.1f MB from the registry, %.1f MB read\n", image, called(r.System, r.Recorded), r.Block>>10, r.Ready, float64(r.RegistryBytes)/mega, float64(r.Read)/mega)
		return out.add(r, sum20)
	}
	b.more = func(h *lab.Host, r *lab.Registry) error {
		for _, size := range sizes {
			fmt.Fprintf(os.Stderr, "blocks of %d KiB: ", size>>10)
			if err := b.pushBoth(c.Context, h, r, image, image, blockTag(size), "--block-size", strconv.Itoa(size)); err != nil {
				return err
			}
		}
		return nil
	}
	return b.each(c.Context, c.Int("reps"), func(burstRow) error { return nil })
}

func blockTag(size int) string { return "block-" + strconv.Itoa(size) }

// startOne starts the function of ref on the only VM.
func (b *burst) startOne(ctx context.Context, ref string, r *figure20Row) error {
	vm, how := b.vms[0], b.plan.system()
	before, err := b.origin.Sent()
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := vm.Containerd.Pull(ctx, how.Snapshotter, ref); err != nil {
		return err
	}
	var figures error
	if err := vm.Containerd.Run(ctx, how.Snapshotter, ref, func(line string) bool {
		if line != lab.Ready {
			return false
		}
		r.Ready = time.Since(begin).Seconds()
		figures = b.bytes(ctx, vm, before, r)
		return true
	}); err != nil {
		return err
	}
	return figures
}

func (b *burst) bytes(ctx context.Context, vm *lab.VM, before int64, r *figure20Row) error {
	sent, err := b.origin.Sent()
	if err != nil {
		return err
	}
	r.RegistryBytes = sent - before
	if vm.Daemon == nil {
		return nil
	}
	m, err := vm.Daemon.Metrics(ctx)
	for series, v := range m {
		if strings.HasPrefix(series, `faasnet_fetch_bytes_total{`) && strings.Contains(series, `source="registry"`) {
			r.Fetched += int64(v)
		}
		if name, _, _ := strings.Cut(series, "{"); name == "faasnet_fuse_read_bytes_total" {
			r.Read += int64(v)
		}
	}
	return err
}

func sum20(rows []figure20Row) (out []figure20Sum) {
	type kind struct {
		block    int
		recorded bool
	}
	imageNames, groups := by(rows, func(r figure20Row) string { return r.Image })
	for _, image := range imageNames {
		pulls := map[int]int64{}
		kinds, byKind := by(groups[image], func(r figure20Row) kind { return kind{r.Block, r.Recorded} })
		for _, r := range byKind[kind{}] {
			pulls[r.Rep] = r.RegistryBytes
		}
		for _, k := range kinds {
			g := byKind[k]
			sum := figure20Sum{
				System: g[0].System, Recorded: k.recorded, Image: image, Block: k.block, Ready: median(column(g, func(r figure20Row) float64 { return r.Ready })),
				RegistryBytes: median(column(g, func(r figure20Row) int64 { return r.RegistryBytes })), Read: median(column(g, func(r figure20Row) int64 { return r.Read })),
			}
			var ofPull, overRead []float64
			for _, r := range g {
				if pulls[r.Rep] > 0 {
					ofPull = append(ofPull, float64(r.RegistryBytes)/float64(pulls[r.Rep]))
				}
				if r.Read > 0 {
					overRead = append(overRead, float64(r.Fetched)/float64(r.Read))
				}
			}
			sum.OfPull, sum.OverRead = median(ofPull), median(overRead)
			out = append(out, sum)
		}
	}
	return append(out, paper20)
}

func print20(w io.Writer, sums []figure20Sum) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "system\timage\tblock KiB\tREADY s\tregistry MB\tof a full pull\tMB read\tfetched of read\t")
	for _, s := range sums {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%.1f %%\t%s\t%s\t\n", called(s.System, s.Recorded), s.Image, ratio("%.0f", float64(s.Block)/1024), ratio("%.2f", s.Ready), ratio("%.1f", float64(s.RegistryBytes)/mega),
			s.OfPull*100, ratio("%.1f", float64(s.Read)/mega), ratio("%.2fx", s.OverRead))
	}
	return t.Flush()
}

func plot20(sums []figure20Sum) plot.Figure {
	f := plot.Figure{
		Title: "Bytes from the registry until READY, by block size", Note: "one VM, nothing fetched that is not read; the paper's with a 728 MB image",
		X: plot.Axis{Label: "block size, KiB"}, Y: plot.Axis{Label: "of a full pull, %"},
	}
	var sizes []int
	for _, s := range sums {
		if s.Block > 0 && !slices.Contains(sizes, s.Block) {
			sizes = append(sizes, s.Block)
		}
	}
	slices.Sort(sizes)
	for _, size := range sizes {
		f.X.Names = append(f.X.Names, strconv.Itoa(size>>10))
	}
	index := map[string]int{}
	for _, s := range sums {
		if s.Block == 0 {
			continue
		}
		name := called("image "+s.Image, s.Recorded)
		if strings.HasPrefix(s.System, "paper") {
			name = s.System
		}
		if _, known := index[name]; !known {
			index[name] = len(f.Series)
			f.Series = append(f.Series, plot.Series{Name: name, Kind: plot.Bars})
		}
		series := &f.Series[index[name]]
		series.Points = append(series.Points, plot.At(float64(slices.Index(sizes, s.Block)), s.OfPull*100))
	}
	return f
}
