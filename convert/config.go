package convert

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// createdBy is what the history says of an index layer.
const createdBy = "faasnet convert # index layer"

// dropIndexLayers removes the index layers that an earlier conversion added,
// wherever they are now: another image may have been built on a converted one.
func (m *image) dropIndexLayers() error {
	if err := m.check(); err != nil {
		return err
	}
	for i := len(m.manifest.Layers) - 1; i >= 0; i-- {
		if !isIndexLayer(m.manifest.Layers[i]) {
			continue
		}
		m.dropHistory(i)
		m.manifest.Layers = slices.Delete(m.manifest.Layers, i, i+1)
		m.config.RootFS.DiffIDs = slices.Delete(m.config.RootFS.DiffIDs, i, i+1)
	}
	return nil
}

// dropHistory removes the history entry of layer i, if there is one of ours.
func (m *image) dropHistory(i int) {
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

// addIndexLayer puts the index layer on top: one layer, one diff ID and, for an
// image that has a history at all, one entry in it. The entry has the image's
// date: the same input must give the same bytes.
func (m *image) addIndexLayer(l indexLayer) {
	m.manifest.Layers = append(m.manifest.Layers, l.desc)
	m.config.RootFS.DiffIDs = append(m.config.RootFS.DiffIDs, l.diffID)
	if len(m.config.History) > 0 {
		m.config.History = append(m.config.History, ocispec.History{Created: m.config.Created, CreatedBy: createdBy})
	}
}

// indexLayer is an index layer that was written.
type indexLayer struct {
	desc   ocispec.Descriptor
	diffID digest.Digest
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
