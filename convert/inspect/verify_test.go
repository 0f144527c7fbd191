package inspect_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/convert/imagetest"
	"github.com/faasnet/faasnet/convert/inspect"
	"github.com/faasnet/faasnet/fs/layer"
)

// verify gives the problems of an image.
func verify(t *testing.T, cs content.Provider, d ocispec.Descriptor) []string {
	t.Helper()
	problems := []string{}
	v := inspect.Verifier{Provider: cs, Blobs: ranges{cs}, Report: func(s string) { problems = append(problems, s) }}
	if err := v.Image(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	return problems
}

func TestVerify(t *testing.T) {
	a, b := files("a", strings.Repeat("A", 10_000), "d/x", "X"), files("b", "B", "d/.wh.x", "")
	other := files("a", strings.Repeat("A", 10_000), "d/evil", "X") // as long as a
	cs, good := converted(t, a, b)
	if problems := verify(t, cs, good); len(problems) > 0 {
		t.Fatalf("a good image has problems: %q", problems)
	}
	m := imagetest.Read[ocispec.Manifest](t, cs, good)
	first, top := m.Layers[0], m.Layers[2]
	flip := func(at int64) func([]byte) []byte {
		return func(b []byte) []byte { b[at] ^= 1; return b }
	}
	info, err := layer.FromLabels(first.Annotations)
	if err != nil {
		t.Fatal(err)
	}
	swap := func(i int, d ocispec.Descriptor) func(*ocispec.Manifest, *ocispec.Image) {
		return func(m *ocispec.Manifest, _ *ocispec.Image) {
			m.Layers[i] = d
			sayAbove(t, m)
		}
	}
	for name, c := range map[string]struct {
		store content.Provider
		image ocispec.Descriptor
		want  []string // each in one problem, and no more problems
	}{
		"block":            {damaged{cs, first.Digest, flip(20)}, good, []string{"block 0: ", "blob has digest"}},
		"metadata section": {damaged{cs, first.Digest, flip(info.Meta.Offset + 20)}, good, []string{"section "}},
		"seek table":       {damaged{cs, first.Digest, flip(first.Size - 20)}, good, []string{"seek table", "blob has digest"}},
		"cut":              {damaged{cs, first.Digest, func(b []byte) []byte { return b[:100] }}, good, []string{"section "}},
		"diff ID": {cs, rewrite(t, cs, good, func(_ *ocispec.Manifest, c *ocispec.Image) { c.RootFS.DiffIDs[0] = digest.FromString("x") }),
			[]string{"tar stream has digest", "layer 0 has diff ID"}},
		"no index layer": {cs, rewrite(t, cs, good, func(m *ocispec.Manifest, c *ocispec.Image) {
			m.Layers, c.RootFS.DiffIDs = m.Layers[:2], c.RootFS.DiffIDs[:2]
		}), []string{"no index layer", says(m.Layers[0], ""), says(m.Layers[1], "")}},
		"index layer in the middle": {cs, rewrite(t, cs, good, func(m *ocispec.Manifest, c *ocispec.Image) {
			m.Layers[1], m.Layers[2] = m.Layers[2], m.Layers[1]
			c.RootFS.DiffIDs[1], c.RootFS.DiffIDs[2] = c.RootFS.DiffIDs[2], c.RootFS.DiffIDs[1]
		}), []string{"not on top", "no index layer", says(m.Layers[0], ""), says(m.Layers[1], "")}},
		"plain layer": {cs, rewrite(t, cs, good, swap(1, imagetest.Blob(t, cs, ocispec.MediaTypeImageLayer, b))), []string{"1 of 3 layers are not converted"}},
		"layer index of another tar": {cs, rewrite(t, cs, good, swap(0, lay(t, cs, a, layer.Sections{Index: indexOf(t, other)}))),
			[]string{"index is not the one of the tar stream", "layer 0 is "}},
		"layer index that is none":    {cs, rewrite(t, cs, good, swap(0, lay(t, cs, a, layer.Sections{Index: bytes.Repeat([]byte("x"), 4096)}))), []string{"index: ", "layer 0 is "}},
		"image index of other layers": {cs, rewrite(t, cs, good, swap(2, indexLayer(t, cs, good, indexOf(t, other, b)))), []string{`"d/evil" is not in the layers`}},
		"annotations of another blob": {cs, rewrite(t, cs, good, func(m *ocispec.Manifest, _ *ocispec.Image) { m.Layers[0].Annotations = top.Annotations }), []string{"annotations are of blob"}},
	} {
		t.Run(name, func(t *testing.T) {
			problems := verify(t, c.store, c.image)
			if len(problems) != len(c.want) {
				t.Errorf("problems are\n%s\nwant %d", strings.Join(problems, "\n"), len(c.want))
			}
			for _, w := range c.want {
				if !strings.Contains(strings.Join(problems, "\n"), w) {
					t.Errorf("problems are\n%s\nwant one with %q", strings.Join(problems, "\n"), w)
				}
			}
		})
	}
}
