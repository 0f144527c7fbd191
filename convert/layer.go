package convert

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/labels"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/fs/layer"
)

// made is a converted layer. Its diff ID is empty for one that was reused.
type made struct {
	info   layer.Info
	report LayerReport
}

// Layer converts one layer of cs and returns the descriptor of the result, or
// nil when the layer already is what it would become, or none that can be
// converted (encrypted, not to be distributed, the index layer of an image).
// It is a converter.ConvertFunc.
//
// The blob's length and digest are verified while it is read, and its diff ID
// is held against the label containerd.io/uncompressed where cs has one. After
// an error cs has nothing more than before.
func (c *Converter) Layer(ctx context.Context, cs content.Store, desc ocispec.Descriptor) (*ocispec.Descriptor, error) {
	if !convertible(ctx, desc) {
		return nil, nil
	}
	if _, ok := c.reusable(desc.Annotations); ok {
		diffID, err := knownDiffID(ctx, cs, desc)
		c.o.Progress.End(LayerReport{Source: desc.Digest, Target: desc.Digest, DiffID: diffID, BytesIn: desc.Size, BytesOut: desc.Size, Reused: true})
		return nil, err
	}
	c.mu.Lock()
	once, ok := c.once[desc.Digest]
	if !ok {
		once = sync.OnceValues(func() (made, error) { return c.layer(ctx, cs, desc) })
		c.once[desc.Digest] = once
	}
	c.mu.Unlock()
	m, err := once()
	if err != nil {
		return nil, err
	}
	if !ok {
		c.o.Progress.End(m.report)
	}
	return &ocispec.Descriptor{
		MediaType:   layer.MediaType,
		Digest:      m.info.Digest,
		Size:        m.info.Size,
		Annotations: c.annotate(desc.Annotations, m.info),
	}, nil
}

// convertible says whether desc is a layer that c.Layer converts.
func convertible(ctx context.Context, desc ocispec.Descriptor) bool {
	if !images.IsLayerType(desc.MediaType) || images.IsNonDistributable(desc.MediaType) || isIndexLayer(desc) {
		return false
	}
	// It also knows what is wrapped, or no tar: encrypted layers, EROFS blobs.
	kind, err := images.DiffCompression(ctx, desc.MediaType)
	return err == nil && (kind != "" || desc.MediaType == ocispec.MediaTypeImageLayer)
}

func (c *Converter) layer(ctx context.Context, cs content.Store, desc ocispec.Descriptor) (made, error) {
	start := time.Now()
	want, err := knownDiffID(ctx, cs, desc)
	if err != nil {
		return made{}, err
	}
	if i, ok, err := c.find(ctx, cs, want); err != nil {
		return made{}, err
	} else if ok {
		return made{i, LayerReport{
			Source: desc.Digest, Target: i.Digest, DiffID: want, BytesIn: desc.Size, BytesOut: i.Size,
			Reused: true, Seconds: time.Since(start).Seconds(),
		}}, nil
	}
	if err := c.work.layers.Acquire(ctx, 1); err != nil {
		return made{}, err
	}
	defer c.work.layers.Release(1)
	c.o.Progress.Begin(desc)
	m, err := c.write(ctx, cs, desc, want)
	m.report.Seconds = time.Since(start).Seconds()
	return m, err
}

// write converts desc into a new blob of cs.
func (c *Converter) write(ctx context.Context, cs content.Store, desc ocispec.Descriptor, want digest.Digest) (made, error) {
	blob, err := openBlob(ctx, cs, desc)
	if err != nil {
		return made{}, err
	}
	defer func() { _ = blob.Close() }()
	blob.progress = c.o.Progress.Read
	r := LayerReport{Source: desc.Digest, DiffID: want, BytesIn: desc.Size}
	info, err := c.blob(ctx, cs, "faasnet-convert-"+desc.Digest.String(), func(w io.Writer) (layer.Info, digest.Digest, error) {
		e, err := c.encode(ctx, blob, w)
		if err != nil {
			return layer.Info{}, "", err
		}
		if want != "" && e.diffID != want {
			return layer.Info{}, "", fmt.Errorf("layer %s: its tar stream has digest %s, the image says %s: %w", desc.Digest, e.diffID, want, errdefs.ErrDataLoss)
		}
		r.DiffID, r.Target, r.BytesOut = e.diffID, e.info.Digest, e.info.Size
		r.BytesTar, r.Blocks = e.table.Length(), e.table.Len()
		return e.info, e.diffID, nil
	})
	return made{info, r}, err
}

// knownDiffID is what cs says about the tar stream of desc, if anything.
func knownDiffID(ctx context.Context, cs content.Store, desc ocispec.Descriptor) (digest.Digest, error) {
	info, err := cs.Info(ctx, desc.Digest)
	if errdefs.IsNotFound(err) {
		return "", nil // opening it says so better
	}
	if err != nil {
		return "", fmt.Errorf("layer %s: %w", desc.Digest, err)
	}
	v, ok := info.Labels[labels.LabelUncompressed]
	if !ok {
		return "", nil
	}
	d, err := digest.Parse(v)
	if err != nil {
		return "", fmt.Errorf("layer %s: label %s: %q: %w", desc.Digest, labels.LabelUncompressed, v, errdefs.ErrInvalidArgument)
	}
	return d, nil
}
