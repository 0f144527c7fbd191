package inspect

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/faasnet/faasnet/convert/start"
	"github.com/faasnet/faasnet/fs/index"
	"github.com/faasnet/faasnet/fs/layer"
)

// startLayer holds the start layer of an image, which is the one right below
// the index layer, against the layers below it: it must change nothing. trees
// are those of the layers without the index layer.
func (v *Verifier) startLayer(ctx context.Context, img *Image, trees []*index.Tree) error {
	top := len(trees) - 1
	if top < 0 || !img.Layers[top].Info.Start || slices.Contains(trees, nil) {
		return nil
	}
	where := "start layer " + img.Layers[top].Descriptor.Digest.String()
	below, err := index.Merge(trees[:top], nil)
	if err != nil {
		return nil //nolint:nilerr // reported, as that of all layers
	}
	all, err := index.Merge(trees, nil)
	if err != nil {
		return nil //nolint:nilerr // likewise
	}
	other := start.Differences(below, all)
	for _, name := range other {
		v.Report(fmt.Sprintf("%s: %q is not as in the layers below", where, name))
	}
	r := NewReader(v.Blobs, img.devices()[:top])
	copies := NewReader(v.Blobs, img.devices()[top:top+1])
	done := make(map[any]bool)
	return trees[top].Walk(func(f index.File) error {
		if !f.IsDir() && !f.IsRegular() {
			v.Report(fmt.Sprintf("%s: %q is neither a file nor a directory", where, f.Path))
		}
		if !f.IsRegular() || done[f.ID()] || slices.Contains(other, f.Path) {
			return nil
		}
		done[f.ID()] = true
		want, err := sum(ctx, r, below, f.Path)
		if err == nil {
			var got []byte
			if got, err = sum(ctx, copies, trees[top], f.Path); err == nil && !bytes.Equal(got, want) {
				v.Report(fmt.Sprintf("%s: content of %q is not that in the layers below", where, f.Path))
			}
		}
		if err != nil {
			return v.stopped(ctx, fmt.Errorf("%s: %q: %w", where, f.Path, err))
		}
		return nil
	})
}

// sum is the SHA-256 of a file's content.
func sum(ctx context.Context, r *Reader, tree *index.Tree, name string) ([]byte, error) {
	f, err := tree.Lookup(name)
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	err = r.Copy(ctx, h, f)
	return h.Sum(nil), err
}

// devices are the layers that all are converted, without the index layer.
func (m *Image) devices() []layer.ImageLayer {
	out := make([]layer.ImageLayer, len(m.Layers)-1)
	for i, l := range m.Layers[:len(m.Layers)-1] {
		out[i] = layer.ImageLayer{Digest: l.Descriptor.Digest, Size: l.Descriptor.Size, DiffID: l.DiffID, Table: l.Meta.Table}
	}
	return out
}
