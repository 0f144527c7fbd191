package endpoint

import (
	"context"
	"fmt"
	"io"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

func (p *Places) openContainerd(ctx context.Context, n Name) (*Image, error) {
	client, err := p.Containerd()
	if err != nil {
		return nil, err
	}
	img, err := client.ImageService().Get(ctx, n.Ref)
	if err != nil {
		return nil, err
	}
	cs := client.ContentStore()
	return &Image{Target: img.Target, Provider: cs, Blobs: ranges{cs}}, nil
}

// putContainerd copies an image into containerd's content store, under a lease
// until the image's name holds it.
func (p *Places) putContainerd(ctx context.Context, n Name, target ocispec.Descriptor, from content.InfoReaderProvider) error {
	client, err := p.Containerd()
	if err != nil {
		return err
	}
	ctx, done, err := client.WithLease(ctx)
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	defer func() { _ = done(context.WithoutCancel(ctx)) }() // else it expires
	cs := client.ContentStore()
	if err := copyTree(ctx, from, target, func(desc ocispec.Descriptor, r io.Reader) error {
		return ingest(ctx, cs, from, desc, r)
	}); err != nil {
		return err
	}
	return setImage(ctx, client, images.Image{Name: n.Ref, Target: target})
}

// Rewrite makes an image of containerd out of another one there, in its content
// store and under a lease until the new name holds the result.
func (p *Places) Rewrite(ctx context.Context, src, dst Name, convert func(context.Context, content.Store, ocispec.Descriptor) (*ocispec.Descriptor, error)) (*ocispec.Descriptor, error) {
	client, err := p.Containerd()
	if err != nil {
		return nil, err
	}
	ctx, done, err := client.WithLease(ctx)
	if err != nil {
		return nil, fmt.Errorf("%v: lease: %w", dst, err)
	}
	defer func() { _ = done(context.WithoutCancel(ctx)) }() // else it expires
	img, err := client.ImageService().Get(ctx, src.Ref)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", src, err)
	}
	target, err := convert(ctx, client.ContentStore(), img.Target)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", src, err)
	}
	img.Name, img.Target = dst.Ref, *target
	if err := setImage(ctx, client, img); err != nil {
		return nil, fmt.Errorf("%v: %w", dst, err)
	}
	return target, nil
}

// ingest copies one blob with the labels that it has at its source and those by
// which containerd's garbage collector finds its children.
func ingest(ctx context.Context, cs content.Store, from content.InfoReaderProvider, desc ocispec.Descriptor, r io.Reader) error {
	info, err := from.Info(ctx, desc.Digest)
	if err != nil && !errdefs.IsNotFound(err) {
		return err
	}
	ref := "faasnet-put-" + desc.Digest.String()
	if err := content.WriteBlob(ctx, cs, ref, r, desc, content.WithLabels(info.Labels)); err != nil {
		_ = cs.Abort(context.WithoutCancel(ctx), ref)
		return err
	}
	children := images.SetChildrenMappedLabels(cs, images.ChildrenHandler(cs), nil)
	_, err = children(ctx, desc)
	return err
}

func setImage(ctx context.Context, client *containerd.Client, img images.Image) error {
	is := client.ImageService()
	_, err := is.Create(ctx, img)
	if errdefs.IsAlreadyExists(err) {
		_, err = is.Update(ctx, img, "target")
	}
	return err
}
