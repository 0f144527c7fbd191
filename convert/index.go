package convert

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/images/converter"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"
)

// BuildKit's way to attach attestations: a manifest beside the one that it is
// about, told by annotations of its descriptor.
const (
	annotationReferenceType   = "vnd.docker.reference.type"
	annotationReferenceDigest = "vnd.docker.reference.digest"
)

// index converts an index, or returns nil when none of its manifests is of a
// wanted platform.
func (c *Converter) index(ctx context.Context, cs content.Store, desc ocispec.Descriptor) (*ocispec.Descriptor, error) {
	var idx ocispec.Index
	if err := readJSON(ctx, cs, desc, &idx); err != nil {
		return nil, fmt.Errorf("index %s: %w", desc.Digest, err)
	}
	children := make([]*ocispec.Descriptor, len(idx.Manifests)) // nil: dropped
	g, gctx := errgroup.WithContext(ctx)
	for i, m := range idx.Manifests {
		if isAttestation(m) {
			continue
		}
		g.Go(func() error {
			var err error
			children[i], err = c.child(gctx, cs, m)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(children, func(d *ocispec.Descriptor) bool { return d != nil }) {
		return nil, nil
	}
	c.follow(idx.Manifests, children)
	mediaType := converter.ConvertDockerMediaTypeToOCI(desc.MediaType)
	out := make([]ocispec.Descriptor, 0, len(children))
	for _, d := range children {
		if d != nil {
			out = append(out, *d)
		}
	}
	if mediaType == desc.MediaType && slices.EqualFunc(out, idx.Manifests, sameDescriptor) {
		return &desc, nil
	}
	idx.Manifests, idx.MediaType, desc.MediaType = out, mediaType, mediaType
	labels := make(map[string]string)
	for i, m := range out {
		labels[fmt.Sprintf("containerd.io/gc.ref.content.m.%d", i)] = m.Digest.String()
	}
	return writeJSON(ctx, cs, idx, desc, labels)
}

// noPlatform is the error for an index that has nothing for the platform.
func (c *Converter) noPlatform(ctx context.Context, cs content.Store, desc ocispec.Descriptor) error {
	has, err := images.Platforms(ctx, cs, desc)
	if err != nil {
		return fmt.Errorf("index %s: platforms: %w", desc.Digest, err)
	}
	var names []string
	for _, p := range has {
		names = append(names, platforms.FormatAll(p))
	}
	return fmt.Errorf("index %s has no image of the wanted platform, only %s: %w", desc.Digest, strings.Join(names, ", "), errdefs.ErrNotFound)
}

// child converts one member of an index, or returns nil to drop it.
func (c *Converter) child(ctx context.Context, cs content.Store, desc ocispec.Descriptor) (*ocispec.Descriptor, error) {
	if desc.Platform != nil && !c.o.Platform.Match(*desc.Platform) {
		return nil, nil
	}
	switch {
	case images.IsIndexType(desc.MediaType):
		return c.index(ctx, cs, desc)
	case !images.IsManifestType(desc.MediaType):
		return &desc, nil
	}
	if desc.Platform == nil {
		// Only the config tells.
		img, err := readImage(ctx, cs, desc)
		if err != nil {
			return nil, err
		}
		if img.runnable() && !c.o.Platform.Match(img.platform()) {
			return nil, nil
		}
	}
	return c.manifest(ctx, cs, desc)
}

// follow decides about the attestations of an index: one whose subject is kept
// stays, byte for byte, and its descriptor follows the subject's new digest; one
// whose subject was dropped goes too.
func (c *Converter) follow(old []ocispec.Descriptor, children []*ocispec.Descriptor) {
	digests := make(map[digest.Digest]*ocispec.Descriptor)
	for i, d := range old {
		digests[d.Digest] = children[i]
	}
	for i, d := range old {
		if !isAttestation(d) {
			continue
		}
		subject, found := digests[digest.Digest(d.Annotations[annotationReferenceDigest])]
		switch {
		case !found:
			children[i] = &d
		case subject == nil:
			c.o.Progress.Warn(fmt.Sprintf("attestation %s is dropped with the manifest that it is about", d.Digest))
		default:
			d.Annotations = withValue(d.Annotations, annotationReferenceDigest, subject.Digest.String())
			children[i] = &d
		}
	}
}

func isAttestation(d ocispec.Descriptor) bool { return d.Annotations[annotationReferenceType] != "" }

func withValue(m map[string]string, key, value string) map[string]string {
	out := map[string]string{key: value}
	for k, v := range m {
		if k != key {
			out[k] = v
		}
	}
	return out
}

// sameDescriptor compares two descriptors as they are written.
func sameDescriptor(a, b ocispec.Descriptor) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && string(x) == string(y)
}
