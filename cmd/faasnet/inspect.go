package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/convert/endpoint"
	"github.com/faasnet/faasnet/convert/inspect"
	"github.com/faasnet/faasnet/fs/block"
)

func inspectCommand() *cli.Command {
	flags := append(append([]cli.Flag{
		&cli.StringFlag{Name: "platform", Usage: "look at the image for `PLATFORM` (os/arch[/variant])", DefaultText: "this machine's, else the only one"},
		workFlag(),
	}, registryFlags()...), containerdFlags()...)
	tree := append([]cli.Flag{
		&cli.IntFlag{Name: "layer", Usage: "look into layer `N` alone, counted from 0 at the bottom", Value: -1, DefaultText: "the whole image"},
	}, flags...)
	return &cli.Command{
		Name:      "inspect",
		Usage:     "show what a converted image is made of, or files in it",
		ArgsUsage: "IMAGE|FILE",
		Description: `Shows the layers of an image: sizes, blocks, sections and annotations. FILE may also be
the blob of one converted layer. Only ranges of the layers are read, never all of them.

` + placesHelp,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "write JSON"},
			&cli.BoolFlag{Name: "annotations", Usage: "show the annotations of each layer"},
		}, flags...),
		Action: func(c *cli.Context) error {
			return look(c, 1, 1, func(v *view) error { return v.show(c) })
		},
		Subcommands: []*cli.Command{
			{
				Name: "ls", Usage: "list a directory of the image", ArgsUsage: "IMAGE|FILE [PATH]",
				Description: "Lists the file or directory PATH, by default the root, as ls -l does.",
				Flags:       append([]cli.Flag{&cli.BoolFlag{Name: "recursive", Aliases: []string{"R"}, Usage: "list what is below, too"}}, tree...),
				Action: func(c *cli.Context) error {
					return look(c, 1, 2, func(v *view) error { return v.list(c, c.Args().Get(1)) })
				},
			},
			{
				Name: "cat", Usage: "print a file of the image", ArgsUsage: "IMAGE|FILE PATH",
				Description: "Prints a regular file, following symbolic links. Reads the blocks that the file is in.",
				Flags:       tree,
				Action: func(c *cli.Context) error {
					return look(c, 2, 2, func(v *view) error { return v.cat(c, c.Args().Get(1)) })
				},
			},
		},
	}
}

// view is an image that is being looked at.
type view struct {
	name  string
	image *inspect.Image
	blobs block.Source
}

// look opens the image that the first argument names.
func look(c *cli.Context, least, most int, f func(*view) error) error {
	if c.NArg() < least || c.NArg() > most {
		return usagef("%s: got %d arguments, want %s%s", c.Command.FullName(), c.NArg(), c.Command.ArgsUsage, misplaced(c))
	}
	if v, ok, err := openFile(c.Args().First()); ok || err != nil {
		if err != nil {
			return err
		}
		defer v.Close()
		return f(&v.view)
	}
	ns, err := names(c.Args().First())
	if err != nil {
		return err
	}
	s, err := open(c, ns...)
	if err != nil {
		return err
	}
	defer s.Close()
	v, err := s.view(c.Context, ns[0], c.String("platform"))
	if err != nil {
		return err
	}
	return f(v)
}

// view opens one image.
func (s *session) view(ctx context.Context, n endpoint.Name, platform string) (*view, error) {
	img, err := s.Open(ctx, n)
	if err != nil {
		return nil, err
	}
	want := platforms.DefaultStrict()
	if platform != "" {
		p, err := platforms.Parse(platform)
		if err != nil {
			return nil, usageError{err}
		}
		want = platforms.OnlyStrict(p)
	}
	ms, err := inspect.Manifests(ctx, img, img.Target, want)
	if err == nil && len(ms) == 0 && platform == "" {
		ms, err = inspect.Manifests(ctx, img, img.Target, platforms.All)
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %w", n, err)
	}
	if len(ms) != 1 {
		return nil, fmt.Errorf("%v: %d images fit, choose one with --platform: %w", n, len(ms), errdefs.ErrNotFound)
	}
	m, err := inspect.Open(ctx, img, img.Blobs, ms[0])
	if err != nil {
		return nil, fmt.Errorf("%v: %w", n, err)
	}
	return &view{name: img.Name, image: m, blobs: img.Blobs}, nil
}

// fileView is a layer file that is seen alone.
type fileView struct {
	view
	*endpoint.File
}

// openFile opens a file that is a converted layer. It says whether it is one.
func openFile(path string) (*fileView, bool, error) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil, false, nil //nolint:nilerr // it is something else, whose opening fails better
	}
	f, err := endpoint.OpenFile(path)
	if err != nil {
		return nil, false, err
	}
	desc, err := inspect.Blob(f, f.Size())
	if err == nil {
		var img *inspect.Image
		if img, err = inspect.OpenBlob(f, desc); err == nil {
			return &fileView{view{path, img, f}, f}, true, nil
		}
	}
	f.Close()
	if errors.Is(err, errdefs.ErrNotFound) {
		return nil, false, nil // an archive, perhaps
	}
	return nil, false, fmt.Errorf("%s: %w", path, err)
}
