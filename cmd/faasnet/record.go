package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/convert/endpoint"
	"github.com/faasnet/faasnet/convert/start"
)

func recordCommand() *cli.Command {
	return &cli.Command{
		Name:      "record",
		Usage:     "run an image once and write down which files its start opens",
		ArgsUsage: "IMAGE [COMMAND [ARG...]]",
		Description: `Runs IMAGE, which containerd must have, in a new container and writes to --out the files of
the image that are opened, in that order, for faasnet convert --record-in. COMMAND is run
instead of the image's entrypoint and command. What the container prints goes to standard
error.

The recording ends when the container prints --until, when it ends, or at --timeout. A
container that still runs then gets SIGTERM, and SIGKILL 10 seconds later. Container and
snapshot are removed in any case, and a failed command leaves --out as it was. The record is
of the format that ctr-remote and nerdctl write for eStargz.

Needs root. How much of each large file is read is recorded, too. For that dirty pages of the
disks that have the image are written and its large files dropped from the page cache, and
while the container runs the readahead of these disks is at most 128 KiB, for all of the
machine. What it was is printed if that was more, and restored however the command ends,
unless it is killed (SIGKILL, or a second signal). --keep-readahead leaves it alone; large
files may look more used then than they are.`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "write the record to `FILE`", Required: true},
			&cli.StringFlag{Name: "snapshotter", Usage: "`NAME` of the snapshotter to run with", Value: "overlayfs", EnvVars: []string{"CONTAINERD_SNAPSHOTTER"}},
			&cli.StringFlag{Name: "until", Usage: "end when the container prints `TEXT`; it is an error if it does not"},
			&cli.DurationFlag{Name: "timeout", Usage: "end after `DURATION`", Value: time.Minute},
			&cli.BoolFlag{Name: "net-host", Usage: "run in the network of this machine; the default is one without interfaces"},
			&cli.BoolFlag{Name: "keep-readahead", Usage: "do not lower the readahead of the disks that have the image"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "do not show what the container prints"},
		}, containerdFlags()...),
		Action: func(c *cli.Context) error {
			if c.NArg() < 1 {
				return usagef("record: want %s", c.Command.ArgsUsage)
			}
			if c.Duration("timeout") <= 0 {
				return usagef("record: --timeout %v: want more than 0", c.Duration("timeout"))
			}
			return runRecord(c)
		},
	}
}

func runRecord(c *cli.Context) error {
	ns, err := names(c.Args().First())
	if err != nil {
		return err
	}
	if k := ns[0].Kind; k != endpoint.Registry && k != endpoint.Containerd {
		return usagef("record: %v is not an image in containerd", ns[0])
	}
	client, err := containerd.New(c.String("address"), containerd.WithDefaultNamespace(c.String("namespace")))
	if err != nil {
		return fmt.Errorf("containerd at %s: %w", c.String("address"), err)
	}
	defer client.Close()
	ctx := namespaces.WithNamespace(c.Context, c.String("namespace"))
	r := recording{
		client: client, snapshotter: c.String("snapshotter"), command: c.Args().Tail(), netHost: c.Bool("net-host"),
		until: c.String("until"), timeout: c.Duration("timeout"), stderr: c.App.ErrWriter, quiet: c.Bool("quiet"),
		keepReadahead: c.Bool("keep-readahead"),
	}
	record, err := r.record(ctx, ns[0].Ref)
	if err != nil {
		return fmt.Errorf("record %s: %w", ns[0].Ref, err)
	}
	if err := writeFile(c.String("out"), record); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, "%s\n%d files\n", c.String("out"), len(record))
	return err
}

// record runs an image once.
func (r *recording) record(ctx context.Context, ref string) (_ start.Record, err error) {
	ctx, done, err := r.client.WithLease(ctx)
	if err != nil {
		return nil, fmt.Errorf("lease: %w", err)
	}
	defer func() { err = errors.Join(err, done(context.WithoutCancel(ctx))) }()
	if r.image, err = r.client.GetImage(ctx, ref); err != nil {
		return nil, err
	}
	unpacked, err := r.image.IsUnpacked(ctx, r.snapshotter)
	if err == nil && !unpacked {
		err = r.image.Unpack(ctx, r.snapshotter)
	}
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	manifest, err := manifestDigest(ctx, r.image)
	if err != nil {
		return nil, err
	}
	var out start.Record
	err = r.lower(ctx, func(root string) error {
		if err := forget(ctx, root); err != nil {
			return err
		}
		opened, err := r.run(ctx)
		if err != nil {
			return err
		}
		out, err = entries(root, opened)
		return err
	})
	for i := range out {
		out[i].Manifest = manifest
	}
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("no file of the image was opened: %w", errdefs.ErrNotFound)
	}
	return out, err
}

// manifestDigest is the digest of the manifest that runs on this machine.
func manifestDigest(ctx context.Context, img containerd.Image) (string, error) {
	var found string
	h := images.FilterPlatforms(images.ChildrenHandler(img.ContentStore()), platforms.Default())
	h = images.LimitManifests(h, platforms.Default(), 1)
	err := images.Walk(ctx, images.Handlers(images.HandlerFunc(func(_ context.Context, d ocispec.Descriptor) ([]ocispec.Descriptor, error) {
		if found == "" && images.IsManifestType(d.MediaType) {
			found = d.Digest.String()
		}
		return nil, nil
	}), h), img.Target())
	return found, err
}

// writeFile replaces a file by a record.
func writeFile(name string, record start.Record) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-")
	if err != nil {
		return err
	}
	defer func() {
		f.Close()
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	if err := record.Write(f); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
