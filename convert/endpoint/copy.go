package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// copyTree gives each blob of an image to put, once, children before parents,
// and verifies it: put's reader ends with an error that is not io.EOF when the
// bytes are not those of the descriptor.
func copyTree(ctx context.Context, from content.Provider, desc ocispec.Descriptor, put func(ocispec.Descriptor, io.Reader) error) error {
	seen := make(map[digest.Digest]bool)
	var walk func(desc ocispec.Descriptor) error
	walk = func(desc ocispec.Descriptor) error {
		if seen[desc.Digest] {
			return nil
		}
		seen[desc.Digest] = true
		children, err := images.Children(ctx, from, desc)
		if err != nil {
			return fmt.Errorf("%s: %w", desc.Digest, err)
		}
		for _, child := range children {
			if err := walk(child); err != nil {
				return err
			}
		}
		return copyBlob(ctx, from, desc, put)
	}
	return walk(desc)
}

func copyBlob(ctx context.Context, from content.Provider, desc ocispec.Descriptor, put func(ocispec.Descriptor, io.Reader) error) error {
	ra, err := from.ReaderAt(ctx, desc)
	if err != nil {
		return fmt.Errorf("blob %s: %w", desc.Digest, err)
	}
	defer ra.Close()
	r := &verified{ctx: ctx, r: io.NewSectionReader(ra, 0, desc.Size), desc: desc, sum: desc.Digest.Verifier()}
	if err := put(desc, r); err != nil {
		return fmt.Errorf("blob %s: %w", desc.Digest, err)
	}
	return nil
}

// verified is a blob that ends with an error instead of io.EOF when it is not
// the one that desc names.
type verified struct {
	ctx  context.Context //nolint:containedctx // of the call that reads
	r    io.Reader
	desc ocispec.Descriptor
	sum  digest.Verifier
	n    int64
}

func (v *verified) Read(p []byte) (int, error) {
	if err := v.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := v.r.Read(p)
	v.sum.Write(p[:n])
	v.n += int64(n)
	if errors.Is(err, io.EOF) {
		switch {
		case v.n != v.desc.Size:
			err = fmt.Errorf("got %d of %d bytes: %w", v.n, v.desc.Size, io.ErrUnexpectedEOF)
		case !v.sum.Verified():
			err = fmt.Errorf("bytes do not have the digest: %w", errdefs.ErrDataLoss)
		}
	}
	return n, err
}

func withName(m map[string]string, tag string) map[string]string {
	out := maps.Clone(m)
	if out == nil {
		out = make(map[string]string)
	}
	out[ocispec.AnnotationRefName] = tag
	return out
}
