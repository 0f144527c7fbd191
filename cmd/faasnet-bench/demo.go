package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/script/images"
)

func demoCommand() *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "convert an image, then run it lazily beside an ordinary full pull, and print what that saves",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "image", Value: "b", Usage: "test `IMAGE`, or a reference"},
			&cli.StringFlag{Name: "rate", Value: "200mbit", Usage: "`RATE` of the links of registry and VM, as tc says it"},
		},
		Action: func(c *cli.Context) error { return demo(c.Context, c.App.Writer, c.String("image"), c.String("rate")) },
	}
}

// demo is one repetition of start, told as a story. The registry's content is
// kept, so a second demo converts nothing.
func demo(ctx context.Context, w io.Writer, image, rate string) error {
	cache, err := images.Cache()
	if err != nil {
		return err
	}
	s := starts{
		site: site{image: image, data: filepath.Join(cache, "demo"), reuse: true, progress: w},
		rate: rate, systems: []string{"overlayfs", "faasnet"}, background: true,
	}
	fmt.Fprintf(w, "Image %s, and one empty VM after the other: the function starts after a full pull (overlayfs)\n"+
		"and lazily (faasnet). Registry and VM are network namespaces, linked at %s.\n\n", image, rate)
	sums, err := s.measure(ctx, 1, "")
	if err != nil {
		return err
	}
	fmt.Fprintln(w)
	return printDemo(w, sums)
}

// printDemo prints what matters at first sight.
func printDemo(w io.Writer, sums []startSummary) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tbytes fetched\tof the full pull\ttime to READY\ttimes faster\t")
	for _, s := range sums {
		fmt.Fprintf(t, "%s\t%.1f MB\t%.0f %%\t%.2f s\t%.1f\t\n", s.System, float64(s.RegistryBytes)/1e6, s.ByteRatio*100, s.ReadyMedian, s.Speedup)
	}
	return t.Flush()
}
