package convert_test

import (
	"bytes"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/convert/imagetest"
	"github.com/faasnet/faasnet/fs/index"
	"github.com/faasnet/faasnet/fs/index/indextest"
)

// sameTree mounts the image index of a converted image, its devices being the
// tar streams of its layers, and compares it with what containerd unpacks the
// source layers to. TREE of the failure cases.
func sameTree(t *testing.T, cs content.Provider, converted ocispec.Descriptor, tars ...[]byte) {
	t.Helper()
	m := imagetest.Read[ocispec.Manifest](t, cs, converted)
	if len(m.Layers) != len(tars)+1 {
		t.Fatalf("converted image has %d layers, want %d and the index layer", len(m.Layers), len(tars))
	}
	_, _, img := section(t, cs, m.Layers[len(tars)])
	if img == nil {
		t.Fatal("top layer has no image section")
	}
	var flat [][]byte
	for _, l := range m.Layers[:len(tars)] {
		flat = append(flat, untar(t, cs, l))
	}
	dirs, err := indextest.Unpack(t, tars...)
	if err != nil {
		t.Fatal(err)
	}
	indextest.Compare(t, indextest.Overlay(t, dirs...), indextest.EROFS(t, img.Index, indextest.Files(t, flat...)...),
		indextest.Options{SkipMtime: implicit(t, tars)})
}

// implicit says of which directories no layer has an entry; the root is made by
// the snapshotter.
func implicit(t *testing.T, tars [][]byte) func(string) bool {
	t.Helper()
	entries := make(map[string]bool)
	for _, tar := range tars {
		tree, err := index.FromTar(bytes.NewReader(tar))
		if err != nil {
			t.Fatal(err)
		}
		tree.Walk(func(f index.File) error {
			entries[f.Path] = entries[f.Path] || !f.Implicit
			return nil
		})
	}
	return func(path string) bool { return path == "." || !entries[path] }
}
