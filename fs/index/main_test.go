package index_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/faasnet/faasnet/fs/index"
	"github.com/faasnet/faasnet/fs/index/indextest"
	"github.com/faasnet/faasnet/fs/mounttest"
)

func TestMain(m *testing.M) { os.Exit(mounttest.Guard(m).Run()) }

// fromTar builds the trees of layers.
func fromTar(t testing.TB, layers ...[]byte) []*index.Tree {
	t.Helper()
	var trees []*index.Tree
	for i, l := range layers {
		tree, err := index.FromTar(bytes.NewReader(l))
		if err != nil {
			t.Fatalf("layer %d: %v", i, err)
		}
		trees = append(trees, tree)
	}
	return trees
}

func lengths(layers ...[]byte) []int64 {
	var n []int64
	for _, l := range layers {
		n = append(n, int64(len(l)))
	}
	return n
}

// lazy mounts the merged index of layers with the tars themselves as devices.
func lazy(t testing.TB, layers ...[]byte) string {
	t.Helper()
	// Through Encode and Decode, as a VM gets layer indexes.
	var trees []*index.Tree
	for i, tree := range fromTar(t, layers...) {
		img, err := tree.Encode([]int64{int64(len(layers[i]))})
		if err != nil {
			t.Fatalf("layer %d: %v", i, err)
		}
		d, err := index.Decode(img, []int64{int64(len(layers[i]))})
		if err != nil {
			t.Fatalf("layer %d: %v", i, err)
		}
		again, err := d.Encode([]int64{int64(len(layers[i]))})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(img, again) {
			t.Fatalf("layer %d: Encode(Decode(img)) differs from img", i)
		}
		trees = append(trees, d)
	}
	merged, err := index.Merge(trees, nil)
	if err != nil {
		t.Fatal(err)
	}
	img, err := merged.Encode(lengths(layers...))
	if err != nil {
		t.Fatal(err)
	}
	if err := index.Check(img, lengths(layers...)); err != nil {
		t.Fatal(err)
	}
	return indextest.EROFS(t, img, indextest.Files(t, layers...)...)
}

// reference mounts what containerd unpacks layers to.
func reference(t testing.TB, layers ...[]byte) string {
	t.Helper()
	dirs, err := indextest.Unpack(t, layers...)
	if err != nil {
		t.Fatal(err)
	}
	return indextest.Overlay(t, dirs...)
}

// same compares the two, the merged trees and each layer alone, and returns
// the lazy mount.
func same(t *testing.T, layers ...[]byte) (dir string) {
	t.Helper()
	for i, l := range layers {
		sameLayer(t, l)
		if t.Failed() {
			t.Fatalf("layer %d alone", i)
		}
	}
	dir = lazy(t, layers...)
	indextest.Compare(t, reference(t, layers...), dir, indextest.Options{SkipMtime: implicit(t, layers...)})
	return dir
}

// sameLayer compares the directory that containerd unpacks one layer to,
// whiteouts and all, with the mounted index of the layer.
func sameLayer(t *testing.T, layer []byte) {
	t.Helper()
	dirs, err := indextest.Unpack(t, layer)
	if err != nil {
		t.Fatal(err)
	}
	tree := fromTar(t, layer)[0]
	img, err := tree.Encode(lengths(layer))
	if err != nil {
		t.Fatal(err)
	}
	untimed := map[string]bool{}
	err = tree.Walk(func(f index.File) error {
		untimed[f.Path] = f.Path == "." || f.Implicit || f.IsWhiteout()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	indextest.Compare(t, dirs[0], indextest.EROFS(t, img, indextest.Files(t, layer)...), indextest.Options{
		SkipMtime: func(p string) bool { return untimed[p] },
		SkipXattr: "trusted.overlay.faasnet.implicit",
	})
}

// refused checks that both containerd and we refuse layer, and returns our
// error.
func refused(t *testing.T, layer []byte) string {
	t.Helper()
	if _, err := indextest.Unpack(t, layer); err == nil {
		t.Error("containerd unpacks the layer")
	}
	_, err := index.FromTar(bytes.NewReader(layer))
	if err == nil {
		t.Fatal("FromTar accepts the layer")
	}
	return err.Error()
}

// implicit says which directories have no entry in the layer that shows them.
func implicit(t testing.TB, layers ...[]byte) func(string) bool {
	t.Helper()
	last := map[string]bool{".": true}
	for _, tree := range fromTar(t, layers...) {
		err := tree.Walk(func(f index.File) error {
			if f.IsDir() {
				last[f.Path] = f.Implicit || f.Path == "."
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return func(p string) bool { return last[p] }
}
