package convert

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/fs/index"
	"github.com/faasnet/faasnet/fs/layer"
)

// emptyTar is the tar stream of an index layer: the end of an archive and
// nothing before it.
var emptyTar [1024]byte

// indexLayer writes the index layer of an image whose layers are all converted.
func (c *Converter) indexLayer(ctx context.Context, cs content.Store, m *image) (*added, error) {
	section, err := c.merge(ctx, cs, m)
	if err != nil {
		return nil, err
	}
	// Named by the chain and not by the manifest: two platforms never share one.
	ref := "faasnet-index-" + digest.FromString(fmt.Sprint(section.DiffIDs(), c.options())).Encoded()
	out := added{diffID: digest.FromBytes(emptyTar[:])}
	info, err := c.blob(ctx, cs, ref, func(w io.Writer) (layer.Info, digest.Digest, error) {
		info, err := c.encodeIndexLayer(w, section)
		return info, out.diffID, err
	})
	if err != nil {
		return nil, fmt.Errorf("index layer: %w", err)
	}
	out.info = info
	out.desc = ocispec.Descriptor{MediaType: layer.MediaType, Digest: info.Digest, Size: info.Size, Annotations: c.annotate(nil, info)}
	return &out, nil
}

// merge makes the image section of an image from the sections of its layers,
// as they are in the blobs: no matter when and by whom those were converted.
func (c *Converter) merge(ctx context.Context, cs content.Store, m *image) (*layer.Image, error) {
	c.merging.Lock()
	defer c.merging.Unlock()
	layers, trees, err := readTrees(ctx, cs, m)
	if err != nil {
		return nil, err
	}
	section := &layer.Image{Layers: layers}
	devices := make([]int64, len(layers))
	for i, l := range layers {
		devices[i] = l.Table.Length()
	}
	merged, err := index.Merge(trees, nil)
	if err != nil {
		return nil, fmt.Errorf("image index: %w", err)
	}
	section.Index, err = merged.Encode(devices)
	if err != nil {
		return nil, fmt.Errorf("image index: %w", err)
	}
	return section, nil
}

// readTrees reads the layers of an image whose layers are all converted.
func readTrees(ctx context.Context, cs content.Provider, m *image) (layers []layer.ImageLayer, trees []*index.Tree, err error) {
	for i, l := range m.manifest.Layers {
		meta, err := readMeta(ctx, cs, l)
		if err != nil {
			return nil, nil, fmt.Errorf("layer %s: %w", l.Digest, err)
		}
		tree, err := index.Decode(meta.Index, []int64{meta.Table.Length()})
		if err != nil {
			return nil, nil, fmt.Errorf("layer %s: index: %w", l.Digest, err)
		}
		trees = append(trees, tree)
		layers = append(layers, layer.ImageLayer{Digest: l.Digest, Size: l.Size, DiffID: m.config.RootFS.DiffIDs[i], Table: meta.Table})
	}
	return layers, trees, nil
}

// readMeta reads the metadata section of a converted layer.
func readMeta(ctx context.Context, cs content.Provider, desc ocispec.Descriptor) (*layer.Meta, error) {
	info, err := layer.FromLabels(desc.Annotations)
	if err != nil {
		return nil, err
	}
	p, err := readSection(ctx, cs, desc, info.Meta)
	if err != nil {
		return nil, err
	}
	return layer.ParseMeta(p)
}

// encodeIndexLayer writes the layer file of an index layer.
func (c *Converter) encodeIndexLayer(w io.Writer, section *layer.Image) (layer.Info, error) {
	tree, err := index.FromTar(bytes.NewReader(emptyTar[:]))
	if err != nil {
		return layer.Info{}, err
	}
	img, err := tree.Encode([]int64{int64(len(emptyTar))})
	if err != nil {
		return layer.Info{}, err
	}
	out := layer.NewWriter(w, c.o.BlockSize)
	e := <-c.work.encoders
	frame := e.Encode(nil, emptyTar[:])
	c.work.encoders <- e
	if err := out.WriteBlock(frame, len(emptyTar)); err != nil {
		return layer.Info{}, err
	}
	return out.Close(layer.Sections{Index: img, Image: section})
}
