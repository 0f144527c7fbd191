package convert

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/pkg/labels"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/layer"
)

// find looks for a layer with tar stream diffID that was converted with the
// same options. The tar stream and the options determine every byte of a
// converted layer, so it does not matter what it was converted from.
func (c *Converter) find(ctx context.Context, cs content.Store, diffID digest.Digest) (layer.Info, bool, error) {
	if diffID == "" {
		return layer.Info{}, false, nil
	}
	var found layer.Info
	ok := false
	filter := fmt.Sprintf("labels.%q==%s,labels.%q==%q", labels.LabelUncompressed, diffID, AnnotationOptions, c.options())
	err := cs.Walk(ctx, func(i content.Info) error {
		if ok {
			return nil
		}
		if l, same := c.reusable(i.Labels); same && l.Digest == i.Digest {
			found, ok = l, true
		}
		return nil
	}, filter)
	if err != nil && !errors.Is(err, errdefs.ErrNotImplemented) {
		return layer.Info{}, false, fmt.Errorf("converted layers: %w", err)
	}
	if ok {
		return found, true, nil
	}
	desc, known := c.o.Existing(diffID)
	if !known {
		return layer.Info{}, false, nil
	}
	i, same := c.reusable(desc.Annotations)
	if !same || i.Digest != desc.Digest || i.Size != desc.Size {
		return layer.Info{}, false, nil
	}
	if _, err := readMeta(ctx, cs, desc); err != nil {
		if ctx.Err() != nil {
			return layer.Info{}, false, ctx.Err()
		}
		// It may be gone from its place while a manifest still names it.
		c.o.Progress.Warn(fmt.Sprintf("layer %s was converted before, but is converted again: %v", desc.Digest, err))
		return layer.Info{}, false, nil
	}
	return i, true, nil
}

// readSection reads a section of a converted layer by its range and verifies
// it.
func readSection(ctx context.Context, p content.Provider, desc ocispec.Descriptor, ref block.Ref) ([]byte, error) {
	b, err := readRange(ctx, p, desc, ref, nil)
	if err != nil {
		return nil, err
	}
	return b, ref.Verify(b)
}

// readRange appends the bytes of ref, which are in the blob of desc, to dst.
func readRange(ctx context.Context, p content.Provider, desc ocispec.Descriptor, ref block.Ref, dst []byte) ([]byte, error) {
	ra, err := p.ReaderAt(ctx, desc)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", ref, err)
	}
	defer ra.Close()
	b := slices.Grow(dst, ref.Size)[:len(dst)+ref.Size]
	if n, err := ra.ReadAt(b[len(dst):], ref.Offset); n != ref.Size {
		return nil, fmt.Errorf("%v: %w", ref, err)
	}
	return b, nil
}
