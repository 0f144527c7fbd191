package convert

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// image is a manifest with its config. raw keeps what this code does not know
// of a config: Docker has fields that OCI has not.
type image struct {
	desc     ocispec.Descriptor
	manifest ocispec.Manifest
	config   ocispec.Image
	raw      map[string]json.RawMessage
}

// readImage reads a manifest, and its config if it is that of an image.
func readImage(ctx context.Context, cs content.Provider, desc ocispec.Descriptor) (*image, error) {
	m := &image{desc: desc}
	if err := readJSON(ctx, cs, desc, &m.manifest); err != nil {
		return nil, fmt.Errorf("manifest %s: %w", desc.Digest, err)
	}
	if !m.runnable() {
		return m, nil
	}
	if err := readJSON(ctx, cs, m.manifest.Config, &m.config); err != nil {
		return nil, fmt.Errorf("manifest %s: config %s: %w", desc.Digest, m.manifest.Config.Digest, err)
	}
	if err := readJSON(ctx, cs, m.manifest.Config, &m.raw); err != nil {
		return nil, fmt.Errorf("manifest %s: config %s: %w", desc.Digest, m.manifest.Config.Digest, err)
	}
	return m, nil
}

// runnable says whether the manifest is one of an image, with layers that make
// a root file system: not an attestation, a chart or any other artefact, which
// may use the same media types for its config or for its layers.
func (m *image) runnable() bool {
	return m.manifest.ArtifactType == "" && images.IsConfigType(m.manifest.Config.MediaType) &&
		!slices.ContainsFunc(m.manifest.Layers, func(l ocispec.Descriptor) bool { return !images.IsLayerType(l.MediaType) })
}

// check holds the manifest against its config.
func (m *image) check() error {
	if n, ids := len(m.manifest.Layers), len(m.config.RootFS.DiffIDs); n != ids {
		return fmt.Errorf("manifest %s: %d layers, but its config has %d diff IDs: %w", m.desc.Digest, n, ids, errdefs.ErrInvalidArgument)
	}
	for _, d := range m.config.RootFS.DiffIDs {
		if err := d.Validate(); err != nil {
			return fmt.Errorf("manifest %s: config: diff ID %q: %w: %w", m.desc.Digest, d, err, errdefs.ErrInvalidArgument)
		}
	}
	return nil
}

func (m *image) platform() ocispec.Platform { return platforms.Normalize(m.config.Platform) }

// diffIDs gives the diff ID of each layer blob.
func (m *image) diffIDs() map[digest.Digest]digest.Digest {
	ids := make(map[digest.Digest]digest.Digest)
	for i, l := range m.manifest.Layers {
		ids[l.Digest] = m.config.RootFS.DiffIDs[i]
	}
	return ids
}

// store writes config and manifest into cs and returns the manifest's
// descriptor.
func (c *Converter) store(ctx context.Context, cs content.Store, desc ocispec.Descriptor, m *image) (*ocispec.Descriptor, error) {
	config, err := m.marshalConfig()
	if err != nil {
		return nil, fmt.Errorf("manifest %s: config: %w", m.desc.Digest, err)
	}
	newConfig, err := writeJSON(ctx, cs, config, m.manifest.Config, nil)
	if err != nil {
		return nil, fmt.Errorf("manifest %s: config: %w", m.desc.Digest, err)
	}
	m.manifest.Config = *newConfig
	labels := map[string]string{"containerd.io/gc.ref.content.config": newConfig.Digest.String()}
	for i, l := range m.manifest.Layers {
		labels[fmt.Sprintf("containerd.io/gc.ref.content.l.%d", i)] = l.Digest.String()
	}
	out, err := writeJSON(ctx, cs, m.manifest, desc, labels)
	if err != nil {
		return nil, fmt.Errorf("manifest %s: %w", m.desc.Digest, err)
	}
	return out, nil
}
