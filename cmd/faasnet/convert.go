package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	remoteserrors "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/convert"
	"github.com/faasnet/faasnet/convert/endpoint"
	"github.com/faasnet/faasnet/convert/start"
	"github.com/faasnet/faasnet/fs/block"
)

func convertCommand() *cli.Command {
	return &cli.Command{
		Name:      "convert",
		Usage:     "convert an image so that it can be mounted without being pulled",
		ArgsUsage: "SRC DST",
		Description: `Reads the image SRC and writes the converted one to DST. Any containerd, Docker or
Podman that knows zstd layers can still pull and run it; diff IDs do not change.
Needs neither containerd nor root.

` + placesHelp + `

Layers of DST that were converted from the same content with the same options are used
again, and so are those of the images given with --reuse. Of an index the manifest for this
machine's platform is converted and the others are dropped, unless --platform or
--all-platforms says otherwise; attestations go with the manifest that they are about.

The same input and options always give the same bytes. If the command fails or is
interrupted DST is not changed, and no temporary file is left.

With --record-in the image gets a start layer: copies of the files that a container opens when
it starts, as faasnet record (or ctr-remote and nerdctl for eStargz) has written them down.
VMs fetch it at once and in order; what it costs is its size in the registry. Without the
option a start layer stays as it is.

An archive as DST is an OCI archive that docker load (23.0 and later) takes too.`,
		Flags: append(append([]cli.Flag{
			&cli.StringSliceFlag{Name: "platform", Usage: "convert the manifest for `PLATFORM` (os/arch[/variant]); may be repeated"},
			&cli.BoolFlag{Name: "all-platforms", Usage: "convert the manifests for all platforms"},
			&cli.IntFlag{Name: "block-size", Usage: "`BYTES` of the tar stream in a block, a power of two from 4096 to 4194304", Value: block.DefaultSize},
			&cli.StringFlag{Name: "level", Usage: "compression `LEVEL`: fastest, default, better or best", Value: block.LevelDefault.String()},
			&cli.StringSliceFlag{Name: "reuse", Usage: "use the layers of the converted image `IMAGE` again; may be repeated"},
			&cli.BoolFlag{Name: "no-reuse", Usage: "convert every layer, even if DST has it"},
			&cli.StringFlag{Name: "record-in", Usage: "add a start layer of the files that the record `FILE` (-: standard input) names, in place of an older one"},
			&cli.BoolFlag{Name: "json", Usage: "write a summary as JSON to standard output"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "show no progress"},
			workFlag(),
		}, registryFlags()...), containerdFlags()...),
		Action: func(c *cli.Context) error {
			if c.NArg() != 2 {
				return usagef("convert: want SRC and DST, got %d arguments%s", c.NArg(), misplaced(c))
			}
			if c.IsSet("record-in") && c.String("record-in") == "" {
				return usagef("convert: --record-in names no file")
			}
			return runConvert(c)
		},
	}
}

func runConvert(c *cli.Context) error {
	ns, err := names(append([]string{c.Args().Get(0), c.Args().Get(1)}, c.StringSlice("reuse")...)...)
	if err != nil {
		return err
	}
	src, dst, others := ns[0], ns[1], ns[2:]
	if err := endpoint.CheckTarget(dst); err != nil {
		return err
	}
	o := convert.Options{BlockSize: c.Int("block-size")}
	if err := block.ValidSize(o.BlockSize); err != nil {
		return usageError{err}
	}
	if o.Level, err = block.ParseLevel(c.String("level")); err != nil {
		return usageError{err}
	}
	if o.Platform, err = platform(c); err != nil {
		return err
	}
	if o.Record, err = readRecord(c.String("record-in"), c.App.Reader); err != nil {
		return err
	}
	s, err := open(c, ns...)
	if err != nil {
		return err
	}
	defer s.Close()
	began := time.Now()
	ui := newProgress(c)
	o.Progress = ui
	if !c.Bool("no-reuse") {
		others = append(others, dst)
	}
	target, err := s.convert(c.Context, src, dst, others, o, func() { ui.phase("writing " + dst.String()) })
	ui.Close()
	if err != nil {
		return err
	}
	return ui.summary(c, src, dst, *target, time.Since(began))
}

// readRecord reads the record that --record-in names, if it does.
func readRecord(name string, stdin io.Reader) (start.Record, error) {
	switch name {
	case "":
		return nil, nil
	case "-":
		return start.Read(stdin)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := start.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

// convert converts src to dst. It calls writing when all is converted.
func (s *session) convert(ctx context.Context, src, dst endpoint.Name, reuse []endpoint.Name, o convert.Options, writing func()) (*ocispec.Descriptor, error) {
	if src.Kind == endpoint.Containerd && dst.Kind == endpoint.Containerd {
		conv, err := convert.New(o)
		if err != nil {
			return nil, err
		}
		return s.Rewrite(ctx, src, dst, conv.Image) // its labels tell what to reuse
	}
	img, err := s.Open(ctx, src)
	if err != nil {
		return nil, err
	}
	var below []content.InfoReaderProvider
	var found []*convert.Reuse
	for _, n := range reuse {
		r, err := s.reuse(ctx, n)
		if err != nil && (n != dst || !mayBeNew(dst, err)) {
			return nil, err
		}
		if err == nil {
			found, below = append(found, r), append(below, r)
		}
	}
	o.Existing = func(diffID digest.Digest) (ocispec.Descriptor, bool) {
		for _, r := range found {
			if d, ok := r.Find(diffID); ok {
				return d, true
			}
		}
		return ocispec.Descriptor{}, false
	}
	cs, err := endpoint.NewStore(filepath.Join(s.Work, "converted"), append(below, img)...)
	if err != nil {
		return nil, err
	}
	target, err := convert.Image(ctx, cs, img.Target, o)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", src, err)
	}
	writing()
	return target, s.Put(ctx, dst, *target, cs)
}

// mayBeNew says whether err, of looking for an image at dst, is no reason not to
// write one there. A registry may deny a repository that is not there yet; an
// archive is replaced whatever it is.
func mayBeNew(dst endpoint.Name, err error) bool {
	var status remoteserrors.ErrUnexpectedStatus
	denied := errors.Is(err, docker.ErrInvalidAuthorization) ||
		errors.As(err, &status) && (status.StatusCode == http.StatusUnauthorized || status.StatusCode == http.StatusForbidden)
	return denied || errdefs.IsNotFound(err) || dst.Kind == endpoint.Archive && !errors.Is(err, context.Canceled)
}

// reuse reads an image that was converted before.
func (s *session) reuse(ctx context.Context, n endpoint.Name) (*convert.Reuse, error) {
	img, err := s.Open(ctx, n)
	if err != nil {
		return nil, err
	}
	r, err := convert.ReadReuse(ctx, img, img.Target)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", n, err)
	}
	return r, nil
}
