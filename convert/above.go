package convert

import (
	"maps"

	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/layer"
)

// aboveOf is what the layers of m say when an index layer is put on top of them. Only
// the topmost of them can be a start layer.
func (m *image) aboveOf(index layer.Info) *layer.Above {
	var start digest.Digest
	if top := m.manifest.Layers[len(m.manifest.Layers)-1]; isStartLayer(top) {
		start = top.Digest
	}
	a := layer.AboveOf(index, start)
	return &a
}

// sayAbove makes each layer say a, or nothing for nil, in place of what it says of
// another image: one that was built on, or whose layer is used again. The maps of
// annotations may be those of other descriptors.
func (m *image) sayAbove(a *layer.Above) {
	for i, l := range m.manifest.Layers {
		m.manifest.Layers[i].Annotations = maps.Clone(l.Annotations)
		layer.WithAbove(m.manifest.Layers[i].Annotations, a)
	}
}
