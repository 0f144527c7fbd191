package main

import (
	"context"
	"fmt"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/convert/inspect"
	"github.com/faasnet/faasnet/fs/block"
)

func verifyCommand() *cli.Command {
	return &cli.Command{
		Name:      "verify",
		Usage:     "check a converted image down to the last byte",
		ArgsUsage: "IMAGE|FILE",
		Description: `Reads all of every layer and checks: the digest of each blob and block, the block table
against the seek table, the diff IDs, the index of each layer against its tar stream, what
the annotations of layers say of those above them, the index of the image against the merge
of its layers, and the start layer against the files that it copies. So a scanner that
unpacks the image and a container that mounts it see the same files. FILE may also be the
blob of one layer.

Prints what is wrong, one line each, and ends with exit code 1 if anything is.

` + placesHelp,
		Flags: append(append([]cli.Flag{
			&cli.StringSliceFlag{Name: "platform", Usage: "verify the image for `PLATFORM`; may be repeated", DefaultText: "all"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print only what is wrong"},
			workFlag(),
		}, registryFlags()...), containerdFlags()...),
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usagef("verify: got %d arguments, want %s%s", c.NArg(), c.Command.ArgsUsage, misplaced(c))
			}
			return runVerify(c)
		},
	}
}

func runVerify(c *cli.Context) error {
	if v, ok, err := openFile(c.Args().First()); ok || err != nil {
		if err != nil {
			return err
		}
		defer v.Close()
		return check(c, v.File, v.File, func(ctx context.Context, verifier *inspect.Verifier) error {
			_, err := verifier.Layer(ctx, v.image.Layers[0])
			return err
		})
	}
	ns, err := names(c.Args().First())
	if err != nil {
		return err
	}
	want := platforms.All
	if c.IsSet("platform") {
		if want, err = platform(c); err != nil {
			return err
		}
	}
	s, err := open(c, ns...)
	if err != nil {
		return err
	}
	defer s.Close()
	img, err := s.Open(c.Context, ns[0])
	if err != nil {
		return err
	}
	manifests, err := inspect.Manifests(c.Context, img, img.Target, want)
	if err != nil {
		return fmt.Errorf("%v: %w", ns[0], err)
	}
	if len(manifests) == 0 {
		return fmt.Errorf("%v: no image of the wanted platform: %w", ns[0], errdefs.ErrNotFound)
	}
	return check(c, img, img.Blobs, func(ctx context.Context, verifier *inspect.Verifier) error {
		for _, m := range manifests {
			if err := verifier.Image(ctx, m); err != nil {
				return err
			}
		}
		return nil
	})
}

// check runs a verifier and prints what it finds.
func check(c *cli.Context, p content.Provider, blobs block.Source, run func(context.Context, *inspect.Verifier) error) error {
	problems, layers := 0, 0
	v := &inspect.Verifier{Provider: p, Blobs: blobs}
	v.Report = func(problem string) {
		problems++
		fmt.Fprintln(c.App.Writer, problem)
	}
	v.Done = func(desc ocispec.Descriptor) {
		layers++
		if !c.Bool("quiet") {
			fmt.Fprintf(c.App.ErrWriter, "%s: %s read\n", short(desc.Digest), size(desc.Size))
		}
	}
	if err := run(c.Context, v); err != nil {
		return err
	}
	if problems > 0 {
		return fmt.Errorf("verify: %s: %w", count(problems, "problem"), errdefs.ErrDataLoss)
	}
	if !c.Bool("quiet") {
		fmt.Fprintf(c.App.Writer, "ok: %s\n", count(layers, "layer"))
	}
	return nil
}
