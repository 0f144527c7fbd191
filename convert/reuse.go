package convert

import (
	"context"
	"fmt"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/fs/layer"
)

// Reuse is an image that was converted before, whose layers may be used again:
// Find is meant for Options.Existing, and the Reuse itself is to be a place
// from which the content store of the conversion reads.
type Reuse struct {
	content.InfoReaderProvider
	layers map[digest.Digest]ocispec.Descriptor // by diff ID
	blobs  map[digest.Digest]bool
}

// ReadReuse reads the manifests of an image of p, of all platforms. An image
// without converted layers gives a Reuse that finds nothing.
func ReadReuse(ctx context.Context, p content.InfoReaderProvider, target ocispec.Descriptor) (*Reuse, error) {
	r := &Reuse{InfoReaderProvider: p, layers: make(map[digest.Digest]ocispec.Descriptor), blobs: make(map[digest.Digest]bool)}
	return r, r.read(ctx, target)
}

func (r *Reuse) read(ctx context.Context, desc ocispec.Descriptor) error {
	if images.IsIndexType(desc.MediaType) {
		var idx ocispec.Index
		if err := readJSON(ctx, r.InfoReaderProvider, desc, &idx); err != nil {
			return fmt.Errorf("index %s: %w", desc.Digest, err)
		}
		for _, m := range idx.Manifests {
			if err := r.read(ctx, m); err != nil {
				return err
			}
		}
		return nil
	}
	if !images.IsManifestType(desc.MediaType) || isAttestation(desc) {
		return nil
	}
	img, err := readImage(ctx, r.InfoReaderProvider, desc)
	if err != nil {
		return err
	}
	if !img.runnable() || img.check() != nil {
		return nil //nolint:nilerr // nothing to reuse
	}
	for i, l := range img.manifest.Layers {
		if info, err := layer.FromLabels(l.Annotations); err == nil && info.Image == nil {
			r.layers[img.config.RootFS.DiffIDs[i]] = l
			r.blobs[l.Digest] = true
		}
	}
	return nil
}

// Find returns the converted layer with a tar stream.
func (r *Reuse) Find(diffID digest.Digest) (ocispec.Descriptor, bool) {
	d, ok := r.layers[diffID]
	return d, ok
}

// Info says what the place says of a converted layer. The error matches
// errdefs.ErrNotFound for any other blob.
func (r *Reuse) Info(ctx context.Context, d digest.Digest) (content.Info, error) {
	if !r.blobs[d] {
		return content.Info{}, fmt.Errorf("blob %s: %w", d, errdefs.ErrNotFound)
	}
	return r.InfoReaderProvider.Info(ctx, d)
}

// ReaderAt opens a converted layer. The error matches errdefs.ErrNotFound for
// any other blob.
func (r *Reuse) ReaderAt(ctx context.Context, desc ocispec.Descriptor) (content.ReaderAt, error) {
	if !r.blobs[desc.Digest] {
		return nil, fmt.Errorf("blob %s: %w", desc.Digest, errdefs.ErrNotFound)
	}
	return r.InfoReaderProvider.ReaderAt(ctx, desc)
}
