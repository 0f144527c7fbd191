package inspect

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/index"
)

// Verifier checks images down to the last byte. A layer that several images
// share is read once. It is not safe for concurrent use.
type Verifier struct {
	// Provider reads manifests, and blobs front to back.
	Provider content.Provider
	// Blobs reads sections.
	Blobs block.Source
	// Report is told of each thing that is wrong.
	Report func(problem string)
	// Done is told of each layer that was read; nil: nobody is.
	Done func(desc ocispec.Descriptor)

	layers map[digest.Digest]*checked
}

// checked is a layer that was read.
type checked struct {
	diffID digest.Digest // of the tar stream that is in the blob
	tree   *index.Tree   // of that tar stream, nil if it has none
}

// Image verifies one manifest with all its layers: that each block has the sum
// that the table says, table and seek table agree, the tar stream has the diff
// ID and the layer index is the one made from it, the image section names these
// layers and its index is their merge, a start layer changes nothing, and what
// layers say of those above them is so. The error is for what stops the work; what
// is wrong with the image goes to Report.
func (v *Verifier) Image(ctx context.Context, manifest ocispec.Descriptor) error {
	img, err := Open(ctx, v.Provider, v.Blobs, manifest)
	if err != nil {
		return v.stopped(ctx, err)
	}
	v.above(img)
	var trees []*index.Tree
	converted, indexed := 0, 0
	for i, l := range img.Layers {
		if l.Info == nil {
			continue
		}
		if l.Info.Start && i != len(img.Layers)-2 {
			v.Report(fmt.Sprintf("manifest %s: start layer %s is not right below the index layer", manifest.Digest, l.Descriptor.Digest))
		}
		c, err := v.Layer(ctx, l)
		if err != nil {
			return err
		}
		if l.DiffID != "" && c.diffID != "" && c.diffID != l.DiffID {
			v.Report(fmt.Sprintf("layer %s: tar stream has digest %s, diff ID is %s", l.Descriptor.Digest, c.diffID, l.DiffID))
		}
		if l.Info.Image != nil {
			indexed++
			if i != len(img.Layers)-1 {
				v.Report(fmt.Sprintf("manifest %s: index layer %s is not on top", manifest.Digest, l.Descriptor.Digest))
			}
			continue
		}
		converted++
		trees = append(trees, c.tree)
	}
	switch {
	case converted+indexed < len(img.Layers):
		v.Report(fmt.Sprintf("manifest %s: %d of %d layers are not converted", manifest.Digest, len(img.Layers)-converted-indexed, len(img.Layers)))
	case img.Section == nil:
		v.Report(fmt.Sprintf("manifest %s: no index layer on top", manifest.Digest))
	default:
		v.section(img, trees)
		if len(trees) == len(img.Layers)-1 { // else what is wrong was reported
			return v.startLayer(ctx, img, trees)
		}
	}
	return nil
}

// stopped reports what a broken image makes of an error, and returns what is
// not the image's fault.
func (v *Verifier) stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	v.Report(err.Error())
	return nil
}

// section holds the image section against the layers and their trees.
func (v *Verifier) section(img *Image, trees []*index.Tree) {
	where := fmt.Sprintf("manifest %s: image section", img.Manifest.Digest)
	layers := img.Layers[:len(img.Layers)-1]
	if len(layers) != len(img.Section.Layers) {
		v.Report(fmt.Sprintf("%s: is for %d layers, image has %d", where, len(img.Section.Layers), len(layers)))
		return
	}
	for i, l := range layers {
		s := img.Section.Layers[i]
		switch {
		case s.Digest != l.Descriptor.Digest || s.Size != l.Descriptor.Size:
			v.Report(fmt.Sprintf("%s: layer %d is %s of %d bytes, image has %s of %d", where, i, s.Digest, s.Size, l.Descriptor.Digest, l.Descriptor.Size))
		case s.DiffID != l.DiffID:
			v.Report(fmt.Sprintf("%s: layer %d has diff ID %s, image has %s", where, i, s.DiffID, l.DiffID))
		case !sameTable(s.Table, l.Meta.Table):
			v.Report(fmt.Sprintf("%s: layer %d has another block table than layer %s itself", where, i, l.Descriptor.Digest))
		}
	}
	if slices.Contains(trees, nil) {
		return // there is nothing to compare with, and that was reported
	}
	merged, err := index.Merge(trees, nil)
	if err != nil {
		v.Report(fmt.Sprintf("%s: layers cannot be merged: %v", where, err))
		return
	}
	v.sameIndex(where, merged, img.Section.Index, lengths(img.Section.Layers))
}

// sameIndex holds an index against the tree that it should be of.
func (v *Verifier) sameIndex(where string, tree *index.Tree, img []byte, devices []int64) {
	if err := index.Check(img, devices); err != nil {
		v.Report(fmt.Sprintf("%s: index: %v", where, err))
		return
	}
	want, err := tree.Encode(devices)
	if err != nil {
		v.Report(fmt.Sprintf("%s: index: %v", where, err))
		return
	}
	if bytes.Equal(img, want) {
		return
	}
	v.Report(fmt.Sprintf("%s: index is not the one of the tar stream: %s", where, difference(tree, img, devices)))
}

// sameTable compares what two tables say.
func sameTable(a, b *block.Table) bool {
	x, errA := a.AppendBinary(nil)
	y, errB := b.AppendBinary(nil)
	return errA == nil && errB == nil && bytes.Equal(x, y)
}
