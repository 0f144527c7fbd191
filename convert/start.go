package convert

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/convert/inspect"
	"github.com/faasnet/faasnet/convert/start"
	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/index"
	"github.com/faasnet/faasnet/fs/layer"
)

// startLayer writes the start layer of an image whose layers are all converted,
// from which it reads the files. nil: the image has none of them. old is the
// source manifest.
func (c *Converter) startLayer(ctx context.Context, cs content.Store, m *image, old ocispec.Descriptor) (*added, error) {
	began := time.Now()
	c.merging.Lock()
	defer c.merging.Unlock()
	layers, trees, err := readTrees(ctx, cs, m)
	if err != nil {
		return nil, err
	}
	merged, err := index.Merge(trees, nil)
	if err != nil {
		return nil, fmt.Errorf("image index: %w", err)
	}
	plan := start.New(merged, c.o.Record)
	if err := plan.Settle(ctx, trees, merged); err != nil {
		return nil, err
	}
	c.warnUnknown(plan, old)
	if plan.Files() == 0 {
		c.o.Progress.Warn(fmt.Sprintf("manifest %s: the record names no file that a start layer could have: the image gets none", old.Digest))
		return nil, nil
	}
	r := StartReport{
		Manifest: old.Digest, Files: plan.Files(), Unknown: len(plan.Unknown), Little: plan.Little,
		Empty: plan.Empty, Again: plan.Again, Other: plan.Other,
	}
	ref := "faasnet-start-" + digest.FromString(fmt.Sprint(old.Digest, c.options())).Encoded()
	info, err := c.blob(ctx, cs, ref, func(w io.Writer) (layer.Info, digest.Digest, error) {
		e, err := c.encodeStart(ctx, plan, merged, inspect.NewReader(storeBlocks{cs, layers}, layers), w)
		if err != nil {
			return layer.Info{}, "", err
		}
		r.DiffID, r.Target, r.BytesOut = e.diffID, e.info.Digest, e.info.Size
		r.BytesTar, r.Blocks = e.table.Length(), e.table.Len()
		return e.info, e.diffID, nil
	})
	if err != nil {
		return nil, err
	}
	r.Seconds = time.Since(began).Seconds()
	c.o.Progress.Start(r)
	info.Start = true
	desc := ocispec.Descriptor{MediaType: layer.MediaType, Digest: info.Digest, Size: info.Size, Annotations: c.annotate(nil, info)}
	return &added{desc, r.DiffID, info}, nil
}

// warnUnknown says that the record has paths that the image has not: once.
func (c *Converter) warnUnknown(plan *start.Plan, old ocispec.Descriptor) {
	if n := len(plan.Unknown); n > 0 {
		c.o.Progress.Warn(fmt.Sprintf("manifest %s: %d of %d paths in the record are no files of the image, the first is %q",
			old.Digest, n, len(c.o.Record), plan.Unknown[0]))
	}
}

// encodeStart writes the layer file of a start layer.
func (c *Converter) encodeStart(ctx context.Context, plan *start.Plan, tree *index.Tree, files *inspect.Reader, w io.Writer) (encoded, error) {
	work, err := c.harder()
	if err != nil {
		return encoded{}, err
	}
	pr, pw := io.Pipe()
	written := make(chan struct{})
	go func() {
		defer close(written)
		pw.CloseWithError(plan.WriteTar(pw, tree, func(w io.Writer, f index.File) error { return files.Copy(ctx, w, f) }))
	}()
	e, err := c.encodeTar(ctx, work, "start layer", pr, func() error { return nil }, w)
	pr.CloseWithError(err)
	<-written
	return e, err
}

// storeBlocks are the blocks of layers in a content store. It verifies nothing.
type storeBlocks struct {
	content.Provider
	layers []layer.ImageLayer
}

// ReadBlock reads the bytes of ref.
func (s storeBlocks) ReadBlock(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
	i := slices.IndexFunc(s.layers, func(l layer.ImageLayer) bool { return l.Digest == ref.Blob })
	if i < 0 {
		return dst, fmt.Errorf("%v: %w", ref, errdefs.ErrNotFound)
	}
	b, err := readRange(ctx, s, ocispec.Descriptor{MediaType: layer.MediaType, Digest: ref.Blob, Size: s.layers[i].Size}, ref, dst)
	if err != nil {
		return dst, err
	}
	return b, nil
}
