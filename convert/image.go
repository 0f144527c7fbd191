package convert

import (
	"context"
	"fmt"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/images/converter"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Image converts an image of cs, a manifest or an index of them, and returns
// the descriptor of the result, which is desc itself for an image that already
// is what it would become. What it writes has OCI media types. It is a
// converter.ConvertFunc: to be used as converter.WithIndexConvertFunc.
//
// Of an index the manifests that Options.Platform selects are converted and the
// other ones dropped, at every level; the error matches errdefs.ErrNotFound when
// nothing is left. Manifests that are no images (artefacts, signatures) stay as
// they are. So do attestations, as long as the manifest that they are about is
// there: their descriptors then name the converted manifest.
func (c *Converter) Image(ctx context.Context, cs content.Store, desc ocispec.Descriptor) (*ocispec.Descriptor, error) {
	switch {
	case images.IsIndexType(desc.MediaType):
		out, err := c.index(ctx, cs, desc)
		if err == nil && out == nil {
			err = c.noPlatform(ctx, cs, desc)
		}
		return out, err
	case images.IsManifestType(desc.MediaType):
		return c.manifest(ctx, cs, desc)
	default:
		return nil, fmt.Errorf("%s has media type %q, want an image manifest or index: %w", desc.Digest, desc.MediaType, errdefs.ErrInvalidArgument)
	}
}

// manifest converts one manifest if it is an image.
func (c *Converter) manifest(ctx context.Context, cs content.Store, desc ocispec.Descriptor) (*ocispec.Descriptor, error) {
	img, err := readImage(ctx, cs, desc)
	if err != nil {
		return nil, err
	}
	if !img.runnable() {
		return &desc, nil
	}
	if err := img.check(); err != nil {
		return nil, err
	}
	c.plan(ctx, img.manifest.Layers)
	known := &diffIDStore{Store: cs, ids: img.diffIDs()}
	convert := converter.IndexConvertFuncWithHook(known.layer(c), true, platforms.All, converter.ConvertHooks{PostConvertHook: c.finish})
	out, err := convert(ctx, known, desc)
	if err != nil {
		return nil, err
	}
	if out == nil {
		out = &desc
	}
	return out, nil
}

// plan tells of the layers that were not told of before.
func (c *Converter) plan(ctx context.Context, layers []ocispec.Descriptor) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range layers {
		if convertible(ctx, l) && !c.planned[l.Digest] {
			c.planned[l.Digest] = true
			c.o.Progress.Plan(l)
		}
	}
}

// finish is a converter.ConvertHookFunc: when a manifest's layers are
// converted it adds the start layer, if there is to be one, and the index layer.
func (c *Converter) finish(ctx context.Context, cs content.Store, old ocispec.Descriptor, converted *ocispec.Descriptor) (*ocispec.Descriptor, error) {
	if !images.IsManifestType(old.MediaType) {
		return nil, nil
	}
	desc := old
	if converted != nil {
		desc = *converted
	}
	source, err := readImage(ctx, cs, old)
	if err != nil {
		return nil, err
	}
	img, err := readImage(ctx, cs, desc)
	if err != nil {
		return nil, err
	}
	if err := c.layers(ctx, cs, old, img); err != nil {
		return nil, err
	}
	out, err := c.store(ctx, cs, desc, img)
	if err == nil {
		c.o.Progress.Image(ImageReport{In: source.manifest.Layers, Out: img.manifest.Layers})
	}
	return out, err
}

// layers drops and adds layers of img, which are converted, so that it is what
// old, the source manifest, becomes.
func (c *Converter) layers(ctx context.Context, cs content.Store, old ocispec.Descriptor, img *image) error {
	if err := img.dropIndexLayers(); err != nil {
		return err
	}
	if c.o.Record != nil {
		img.drop(isStartLayer, createdStart)
	}
	img.unmarkStart(max(0, len(img.manifest.Layers)-1))
	for _, l := range img.manifest.Layers {
		if _, ok := c.reusable(l.Annotations); !ok {
			none := "no index layer"
			if c.o.Record != nil {
				none = "neither a start layer nor an index layer"
			}
			c.o.Progress.Warn(fmt.Sprintf("manifest %s: layer %s of type %s cannot be converted: the image gets %s", old.Digest, l.Digest, l.MediaType, none))
			img.unmarkStart(len(img.manifest.Layers))
			img.sayAbove(nil)
			return nil
		}
	}
	if len(img.manifest.Layers) == 0 {
		return nil
	}
	if c.o.Record != nil {
		l, err := c.startLayer(ctx, cs, img, old)
		if err != nil {
			return fmt.Errorf("manifest %s: %w", old.Digest, err)
		}
		if l != nil {
			img.add(*l, createdStart)
		}
	}
	l, err := c.indexLayer(ctx, cs, img)
	if err != nil {
		return fmt.Errorf("manifest %s: %w", old.Digest, err)
	}
	img.sayAbove(img.aboveOf(l.info))
	img.add(*l, createdIndex)
	return nil
}
