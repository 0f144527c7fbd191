package endpoint

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/images/archive"
	"github.com/containerd/containerd/v2/pkg/archive/compression"
	"github.com/containerd/containerd/v2/plugins/content/local"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// openArchive reads the archive into a store below p.Work: the blobs of docker
// save have no digests in it until they were read. The archive may be
// compressed as a whole.
func (p *Places) openArchive(ctx context.Context, n Name) (*Image, error) {
	f, err := os.Open(n.Path)
	if os.IsNotExist(err) {
		return nil, fmt.Errorf("%w: %w", err, errdefs.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	dir, err := os.MkdirTemp(p.Work, "archive-")
	if err != nil {
		return nil, err
	}
	cs, err := local.NewStore(dir)
	if err != nil {
		return nil, err
	}
	r, err := compression.DecompressStream(cancelable{ctx, bufio.NewReaderSize(f, 1<<20)})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	root, err := archive.ImportIndex(ctx, cs, r)
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	idx, err := readIndex(ctx, cs, root)
	if err != nil {
		return nil, err
	}
	m, err := pick(idx, n.Ref)
	if err != nil {
		return nil, err
	}
	return &Image{Target: unnamed(m), Provider: cs, Blobs: ranges{cs}}, nil
}

type cancelable struct {
	ctx context.Context //nolint:containedctx // of the call that reads
	r   io.Reader
}

func (c cancelable) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// putArchive writes an OCI archive that docker load takes too: it has a
// manifest.json for one platform, this machine's if the image has it. A docker
// that does not know zstd layers (before 23.0) refuses it.
func putArchive(ctx context.Context, n Name, target ocispec.Descriptor, from content.InfoReaderProvider) error {
	manifest := archive.WithManifest(unnamed(target))
	if n.Ref != "" {
		manifest = archive.WithManifest(unnamed(target), n.Ref)
	}
	opts := []archive.ExportOpt{manifest, archive.WithAllPlatforms()}
	docker, ok, err := dockerPlatform(ctx, from, target)
	if err != nil {
		return err
	}
	if ok {
		opts = append(opts, archive.WithPlatform(docker))
	} else {
		opts = append(opts, archive.WithSkipDockerManifest())
	}
	return Replace(n.Path, func(w io.Writer) error {
		out := bufio.NewWriterSize(w, 1<<20)
		if err := archive.Export(ctx, cancelableProvider{from}, out, opts...); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
		return ctx.Err()
	})
}

// dockerPlatform chooses the platform that docker load shall get: this one, or
// the only one.
func dockerPlatform(ctx context.Context, p content.Provider, target ocispec.Descriptor) (platforms.MatchComparer, bool, error) {
	all, err := images.Platforms(ctx, p, target)
	if err != nil {
		return nil, false, err
	}
	here := platforms.Default()
	for _, a := range all {
		if here.Match(a) {
			return here, true, nil
		}
	}
	if len(all) == 1 {
		return platforms.OnlyStrict(all[0]), true, nil
	}
	return nil, false, nil
}

// cancelableProvider ends reads with ctx, which archive.Export does not do.
type cancelableProvider struct{ content.InfoReaderProvider }

func (p cancelableProvider) ReaderAt(ctx context.Context, desc ocispec.Descriptor) (content.ReaderAt, error) {
	ra, err := p.InfoReaderProvider.ReaderAt(ctx, desc)
	if err != nil {
		return nil, err
	}
	return cancelableReaderAt{ctx, ra}, nil
}

type cancelableReaderAt struct {
	ctx context.Context //nolint:containedctx // of the call that reads
	content.ReaderAt
}

func (c cancelableReaderAt) ReadAt(p []byte, off int64) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.ReaderAt.ReadAt(p, off)
}
