package inspect

import (
	"context"
	"fmt"
	"slices"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/index"
	"github.com/faasnet/faasnet/fs/layer"
)

// Layer is one layer of an image.
type Layer struct {
	Descriptor ocispec.Descriptor
	DiffID     digest.Digest // empty for a blob that is seen alone
	Info       *layer.Info   // nil for a layer that is not converted
	Meta       *layer.Meta   // nil for a layer that is not converted
}

// Image is an image of one platform, or a blob that is seen alone and then has
// no manifest.
type Image struct {
	Manifest ocispec.Descriptor
	Platform ocispec.Platform
	Layers   []Layer      // bottom first, the index layer too
	Section  *layer.Image // nil without an index layer
}

// Manifests lists the manifests of images in target, a manifest or an index of
// them, that platform selects. Attestations and artefacts are left out.
func Manifests(ctx context.Context, p content.Provider, target ocispec.Descriptor, platform platforms.MatchComparer) ([]ocispec.Descriptor, error) {
	switch {
	case images.IsIndexType(target.MediaType):
		var idx ocispec.Index
		if err := readJSON(ctx, p, target, &idx); err != nil {
			return nil, fmt.Errorf("index %w", err)
		}
		var out []ocispec.Descriptor
		for _, m := range idx.Manifests {
			if m.Platform != nil && !platform.Match(*m.Platform) || m.Annotations["vnd.docker.reference.type"] != "" {
				continue
			}
			some, err := Manifests(ctx, p, m, platform)
			if err != nil {
				return nil, err
			}
			out = append(out, some...)
		}
		return out, nil
	case !images.IsManifestType(target.MediaType):
		return nil, fmt.Errorf("%s has media type %q, want an image manifest or index: %w", target.Digest, target.MediaType, errdefs.ErrInvalidArgument)
	}
	var m ocispec.Manifest
	if err := readJSON(ctx, p, target, &m); err != nil {
		return nil, fmt.Errorf("manifest %w", err)
	}
	isLayer := func(l ocispec.Descriptor) bool { return images.IsLayerType(l.MediaType) }
	if m.ArtifactType != "" || !images.IsConfigType(m.Config.MediaType) || !slices.ContainsFunc(m.Layers, isLayer) {
		return nil, nil
	}
	return []ocispec.Descriptor{target}, nil
}

// Open reads the manifest, the config and the metadata of all layers of an
// image: ranges of the layer blobs only.
func Open(ctx context.Context, p content.Provider, blobs block.Source, manifest ocispec.Descriptor) (*Image, error) {
	img := &Image{Manifest: manifest}
	var m ocispec.Manifest
	if err := readJSON(ctx, p, manifest, &m); err != nil {
		return nil, fmt.Errorf("manifest %w", err)
	}
	var config ocispec.Image
	if err := readJSON(ctx, p, m.Config, &config); err != nil {
		return nil, fmt.Errorf("manifest %s: config %w", manifest.Digest, err)
	}
	img.Platform = config.Platform
	if n := len(config.RootFS.DiffIDs); n != len(m.Layers) {
		return nil, fmt.Errorf("manifest %s: %d layers, but %d diff IDs: %w", manifest.Digest, len(m.Layers), n, errdefs.ErrInvalidArgument)
	}
	for i, desc := range m.Layers {
		l, err := openLayer(ctx, blobs, desc)
		if err != nil {
			return nil, fmt.Errorf("manifest %s: layer %s: %w", manifest.Digest, desc.Digest, err)
		}
		l.DiffID = config.RootFS.DiffIDs[i]
		img.Layers = append(img.Layers, l)
	}
	if err := img.openSection(ctx, blobs); err != nil {
		return nil, fmt.Errorf("manifest %s: index layer: %w", manifest.Digest, err)
	}
	return img, nil
}

// openLayer reads the metadata of a layer, if it is a converted one.
func openLayer(ctx context.Context, blobs block.Source, desc ocispec.Descriptor) (Layer, error) {
	l := Layer{Descriptor: desc}
	info, err := layer.FromLabels(desc.Annotations)
	if errdefs.IsNotFound(err) {
		return l, nil
	}
	if err != nil {
		return l, err
	}
	if info.Digest != desc.Digest || info.Size != desc.Size {
		return l, fmt.Errorf("annotations are of blob %s of %d bytes: %w", info.Digest, info.Size, errdefs.ErrInvalidArgument)
	}
	l.Info = &info
	p, err := readSection(ctx, blobs, info.Meta)
	if err != nil {
		return l, err
	}
	l.Meta, err = layer.ParseMeta(p)
	return l, err
}

// openSection reads the image section of the top layer, if it has one.
func (m *Image) openSection(ctx context.Context, blobs block.Source) error {
	if len(m.Layers) == 0 {
		return nil
	}
	top := m.Layers[len(m.Layers)-1]
	if top.Info == nil || top.Info.Image == nil {
		return nil
	}
	p, err := readSection(ctx, blobs, *top.Info.Image)
	if err != nil {
		return err
	}
	m.Section, err = layer.ParseImage(p)
	return err
}

// Tree gives the file tree of the image, from the index layer if there is one,
// and the layers that its devices are, in order. All layers must be converted.
func (m *Image) Tree() (*index.Tree, []layer.ImageLayer, error) {
	if m.Section != nil {
		tree, err := index.Decode(m.Section.Index, lengths(m.Section.Layers))
		return tree, m.Section.Layers, err
	}
	var devices []layer.ImageLayer
	var trees []*index.Tree
	for i := range m.Layers {
		tree, device, err := m.LayerTree(i)
		if err != nil {
			return nil, nil, err
		}
		trees, devices = append(trees, tree), append(devices, device)
	}
	tree, err := index.Merge(trees, nil)
	return tree, devices, err
}

// LayerTree gives the file tree of layer i alone, with its whiteouts.
func (m *Image) LayerTree(i int) (*index.Tree, layer.ImageLayer, error) {
	if i < 0 || i >= len(m.Layers) {
		return nil, layer.ImageLayer{}, fmt.Errorf("layer %d of %d: %w", i, len(m.Layers), errdefs.ErrNotFound)
	}
	l := m.Layers[i]
	if l.Meta == nil {
		return nil, layer.ImageLayer{}, fmt.Errorf("layer %s is not converted: %w", l.Descriptor.Digest, errdefs.ErrFailedPrecondition)
	}
	tree, err := index.Decode(l.Meta.Index, []int64{l.Meta.Table.Length()})
	if err != nil {
		return nil, layer.ImageLayer{}, fmt.Errorf("layer %s: index: %w", l.Descriptor.Digest, err)
	}
	return tree, layer.ImageLayer{Digest: l.Descriptor.Digest, Size: l.Descriptor.Size, DiffID: l.DiffID, Table: l.Meta.Table}, nil
}

func lengths(ls []layer.ImageLayer) []int64 {
	out := make([]int64, len(ls))
	for i, l := range ls {
		out[i] = l.Table.Length()
	}
	return out
}
