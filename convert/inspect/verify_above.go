package inspect

import (
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/layer"
)

// above holds what the layers say of those above them against the image: all say the
// same, or all say nothing, as in an image without an index layer, or of a writer that
// does not know how.
func (v *Verifier) above(img *Image) {
	if !slices.ContainsFunc(img.Layers, func(l Layer) bool { return l.Info != nil && l.Info.Above != nil }) {
		return
	}
	want := img.above()
	for _, l := range img.Layers {
		if l.Info == nil || l.Info.Image != nil {
			continue
		}
		if got := l.Descriptor.Annotations[layer.LabelAbove]; got != want {
			v.Report(fmt.Sprintf("manifest %s: layer %s: annotation %s: %q, want %q", img.Manifest.Digest, l.Descriptor.Digest, layer.LabelAbove, got, want))
		}
	}
}

// above is what the layers below the index layer are to say, "" without one.
func (m *Image) above() string {
	if m.Section == nil {
		return ""
	}
	top := len(m.Layers) - 1
	var start digest.Digest
	if top > 0 && m.Layers[top-1].Info != nil && m.Layers[top-1].Info.Start {
		start = m.Layers[top-1].Descriptor.Digest
	}
	return layer.AboveOf(*m.Layers[top].Info, start).String()
}
