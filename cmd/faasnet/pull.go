package main

import (
	"context"
	"fmt"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/snapshotters"
	"github.com/containerd/platforms"
	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/convert/endpoint"
)

func pullCommand() *cli.Command {
	return &cli.Command{
		Name:      "pull",
		Usage:     "pull a converted image lazily into containerd",
		ArgsUsage: "REFERENCE",
		Description: `Pulls the manifest of an image into containerd and prepares its layers with the snapshotter,
without downloading the ones that it serves lazily; other layers are pulled as usual.

Needed with containerd before 2.1, whose own pull does not tell a snapshotter which image a
layer belongs to. Later ones do it themselves: ctr image pull --snapshotter=faasnet.`,
		Flags: append(append([]cli.Flag{
			&cli.StringFlag{Name: "snapshotter", Usage: "`NAME` of the snapshotter in containerd's configuration", Value: "faasnet", EnvVars: []string{"CONTAINERD_SNAPSHOTTER"}},
			&cli.StringFlag{Name: "platform", Usage: "pull the image for `PLATFORM` (os/arch[/variant])", DefaultText: "this machine's"},
		}, registryFlags()...), containerdFlags()...),
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usagef("pull: got %d arguments, want %s%s", c.NArg(), c.Command.ArgsUsage, misplaced(c))
			}
			return runPull(c)
		},
	}
}

func runPull(c *cli.Context) error {
	ns, err := names(c.Args().First())
	if err != nil {
		return err
	}
	if ns[0].Kind != endpoint.Registry {
		return usagef("pull: %v is not an image reference", ns[0])
	}
	want := platforms.Default()
	if v := c.String("platform"); v != "" {
		p, err := platforms.Parse(v)
		if err != nil {
			return usageError{err}
		}
		want = platforms.Only(p)
	}
	reg, err := newRegistry(c, ns...)
	if err != nil {
		return err
	}
	defer reg.Close()
	client, err := containerd.New(c.String("address"), containerd.WithDefaultNamespace(c.String("namespace")))
	if err != nil {
		return fmt.Errorf("containerd at %s: %w", c.String("address"), err)
	}
	defer client.Close()
	ref := ns[0].Ref
	img, err := client.Pull(c.Context, ref,
		containerd.WithResolver(reg.Resolver()),
		containerd.WithPlatformMatcher(want),
		containerd.WithPullUnpack,
		containerd.WithPullSnapshotter(c.String("snapshotter")),
		containerd.WithImageHandlerWrapper(snapshotters.AppendInfoHandlerWrapper(ref)), // as the CRI plugin does
	)
	if err != nil {
		return fmt.Errorf("pull %s: %w", ref, err)
	}
	lazy, all, err := lazyLayers(c.Context, client, img)
	if err != nil {
		return fmt.Errorf("pull %s: %w", ref, err)
	}
	_, err = fmt.Fprintf(c.App.Writer, "%s@%s\n%d of %d layers lazy\n", ref, img.Target().Digest, lazy, all)
	return err
}

// lazyLayers counts the layers of an image that were not downloaded.
func lazyLayers(ctx context.Context, client *containerd.Client, img containerd.Image) (lazy, all int, err error) {
	cs := client.ContentStore()
	manifest, err := images.Manifest(ctx, cs, img.Target(), img.Platform())
	if err != nil {
		return 0, 0, err
	}
	for _, l := range manifest.Layers {
		if _, err := cs.Info(ctx, l.Digest); err != nil {
			lazy++
		}
	}
	return lazy, len(manifest.Layers), nil
}
