package node

import (
	"context"
	"fmt"
	"slices"

	"github.com/containerd/log"
	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/index"
	"github.com/faasnet/faasnet/fs/layer"
)

// plan is what to mount for a run of layers: an EROFS image and its devices.
type plan struct {
	image   []byte
	devices []tape // device i+1 is devices[i]
	news    bool   // the fleet did not know the image
}

// tape is the tar stream of one layer.
type tape struct {
	blob  digest.Digest
	table *block.Table
}

// plan finds out what to mount. The image section of an index layer is used only
// for exactly the chain that it names, on nothing. Any other run is merged from
// the layers' own indexes.
func (n *Node) plan(ctx context.Context, r run) (*plan, error) {
	top := r.layers[len(r.layers)-1]
	n.fleet.know(r.function, top)
	n.fleet.join(ctx, r.function)
	if top.Image != nil && len(r.lower) == 0 {
		image, err := n.image(ctx, *top.Image)
		if err != nil {
			return nil, err
		}
		if names(image, r.layers[:len(r.layers)-1]) {
			return &plan{image: image.Index, devices: tapes(image), news: n.fleet.made(r.function, image)}, nil
		}
	}
	if p, ok := n.merged.load(r); ok {
		return p, nil
	}
	p, err := n.merge(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := n.merged.save(r, p); err != nil { // made again next time
		log.G(ctx).WithError(err).Warn("merged index is not kept")
	}
	return p, nil
}

// names tells whether image describes exactly these layers.
func names(image *layer.Image, layers []layer.Info) bool {
	return slices.EqualFunc(image.Layers, layers, func(a layer.ImageLayer, b layer.Info) bool {
		return a.Digest == b.Digest && a.Size == b.Size
	})
}

// maxMetas bounds the metadata sections fetched at a time for one mount.
const maxMetas = 16

// merge makes the index of a run as overlayfs would stack it on r.lower.
func (n *Node) merge(ctx context.Context, r run) (*plan, error) {
	metas := make([]*layer.Meta, len(r.layers))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(maxMetas)
	for i, info := range r.layers {
		g.Go(func() (err error) {
			metas[i], err = n.meta(gctx, info)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	p := &plan{}
	var trees []*index.Tree
	var sizes []int64
	for i, m := range metas {
		size := m.Table.Length()
		tree, err := index.Decode(m.Index, []int64{size})
		if err != nil {
			return nil, fmt.Errorf("index of layer %v: %w", r.layers[i].Digest, err)
		}
		if empty(tree) { // an index layer: not worth a device
			continue
		}
		trees, sizes = append(trees, tree), append(sizes, size)
		p.devices = append(p.devices, tape{r.layers[i].Digest, m.Table})
	}
	var lower index.Lower
	if len(r.lower) > 0 {
		lower = index.Dirs(r.lower)
	}
	tree, err := index.Merge(trees, lower)
	if err == nil {
		p.image, err = tree.Encode(sizes)
	}
	if err != nil {
		return nil, fmt.Errorf("merge %d layers: %w", len(trees), err)
	}
	return p, nil
}

// empty tells that a layer has no entry at all.
func empty(t *index.Tree) bool {
	root, err := t.Lookup(".")
	return err == nil && root.Implicit && !root.Opaque && len(root.List()) == 0
}
