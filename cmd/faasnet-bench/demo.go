package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/script/images"
)

func demoCommand() *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "convert an image, start it on four VMs at once in a function tree, beside full pulls, and print what that saves",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "image", Value: "b", Usage: "test `IMAGE`, or a reference"},
			&cli.StringFlag{Name: "rate", Value: "200mbit", Usage: "`RATE` of the links of registry and VMs, as tc says it"},
			&cli.IntFlag{Name: "vms", Value: 4, Usage: "`NUMBER` of VMs"},
		},
		Action: func(c *cli.Context) error {
			return demo(c.Context, c.App.Writer, c.String("image"), c.String("rate"), c.Int("vms"))
		},
	}
}

// demo is one repetition of burst, told as a story. The registry's content is
// kept, so a second demo converts nothing.
func demo(ctx context.Context, w io.Writer, image, rate string, vms int) error {
	cache, err := images.Cache()
	if err != nil {
		return err
	}
	b := bursts{
		site: site{image: image, data: filepath.Join(cache, "demo"), reuse: true, progress: w},
		draw: true, report: w, timeout: 10 * time.Minute, quiet: true,
	}
	pull := burstPlan{System: "overlayfs", VMs: vms, Rate: rate, RegistryRate: rate, Image: image}
	tree := pull
	tree.System, tree.Stripes, tree.Form = withTree, 2, "striped"
	for _, p := range []burstPlan{pull, tree} {
		if err := p.check(); err != nil {
			return err
		}
		b.plan = append(b.plan, p)
	}
	fmt.Fprintf(w, "Image %s, and %d empty VMs that start its function at the same moment: each after a full pull\n"+
		"(overlayfs), then lazily in a function tree (faasnet), where the registry sends each block once and VMs\n"+
		"pass it on. Registry, coordinator and VMs are network namespaces, linked at %s.\n\n", image, vms, rate)
	sums, err := measure(ctx, &b, 1, "", false, sumBursts)
	if err != nil {
		return err
	}
	if err := failures(sums); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return printDemo(w, sums)
}

// printDemo prints what matters at first sight. The first system is what others
// are compared with.
func printDemo(w io.Writer, sums []burstSummary) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tthe registry sent\tof full pulls\tVMs gave each other\tall VMs READY after\ttimes faster\tCPU s\t")
	for _, s := range sums {
		fmt.Fprintf(t, "%s\t%.1f MB\t%.1f %%\t%.1f MB\t%.2f s\t%.1f\t%.1f\t\n", s.System, float64(s.RegistryBytes)/mega,
			100*float64(s.RegistryBytes)/float64(sums[0].RegistryBytes), float64(s.PeerBytes)/mega, s.ReadyMax, sums[0].ReadyMax/s.ReadyMax, s.CPU)
	}
	return t.Flush()
}
