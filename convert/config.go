package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/fs/layer"
)

// What the history says of the layers that a conversion adds.
const (
	createdIndex = "faasnet convert # index layer"
	createdStart = "faasnet convert # start layer"
)

// dropIndexLayers removes the index layers that an earlier conversion added,
// wherever they are now: another image may have been built on a converted one.
func (m *image) dropIndexLayers() error {
	if err := m.check(); err != nil {
		return err
	}
	m.drop(isIndexLayer, createdIndex)
	return nil
}

// drop removes the layers that is accepts, with their entries in the history if
// those say createdBy.
func (m *image) drop(is func(ocispec.Descriptor) bool, createdBy string) {
	for i := len(m.manifest.Layers) - 1; i >= 0; i-- {
		if !is(m.manifest.Layers[i]) {
			continue
		}
		m.dropHistory(i, createdBy)
		m.manifest.Layers = slices.Delete(m.manifest.Layers, i, i+1)
		m.config.RootFS.DiffIDs = slices.Delete(m.config.RootFS.DiffIDs, i, i+1)
	}
}

// unmarkStart takes the mark of a start layer from the n lowest layers: below
// others, as in an image that was built on a converted one, or without an index
// layer it is a layer like any other.
func (m *image) unmarkStart(n int) {
	for i, l := range m.manifest.Layers[:n] {
		if isStartLayer(l) {
			m.manifest.Layers[i].Annotations = maps.Clone(l.Annotations)
			delete(m.manifest.Layers[i].Annotations, layer.LabelStart)
		}
	}
}

// dropHistory removes the history entry of layer i, if there is one of ours.
func (m *image) dropHistory(i int, createdBy string) {
	for h, entry := range m.config.History {
		if entry.EmptyLayer {
			continue
		}
		if i == 0 {
			if entry.CreatedBy == createdBy {
				m.config.History = slices.Delete(m.config.History, h, h+1)
			}
			return
		}
		i--
	}
}

// add puts a layer on top: one layer, one diff ID and, for an image that has a
// history at all, one entry in it. The entry has the image's date: the same
// input must give the same bytes.
func (m *image) add(l added, createdBy string) {
	m.manifest.Layers = append(m.manifest.Layers, l.desc)
	m.config.RootFS.DiffIDs = append(m.config.RootFS.DiffIDs, l.diffID)
	if len(m.config.History) > 0 {
		m.config.History = append(m.config.History, ocispec.History{Created: m.config.Created, CreatedBy: createdBy})
	}
}

// added is a layer that was written and that the source does not have.
type added struct {
	desc   ocispec.Descriptor
	diffID digest.Digest
	info   layer.Info
}

// marshalConfig gives the config with the layers and the history as they are
// now, and everything else as it was.
func (m *image) marshalConfig() (map[string]json.RawMessage, error) {
	if m.config.RootFS.Type != "layers" {
		return nil, fmt.Errorf("rootfs of type %q: %w", m.config.RootFS.Type, errdefs.ErrInvalidArgument)
	}
	rootfs, err := json.Marshal(m.config.RootFS)
	if err != nil {
		return nil, err
	}
	m.raw["rootfs"] = rootfs
	if len(m.config.History) > 0 {
		history, err := json.Marshal(m.config.History)
		if err != nil {
			return nil, err
		}
		m.raw["history"] = history
	}
	return m.raw, nil
}
