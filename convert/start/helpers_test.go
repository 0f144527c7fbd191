package start_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/faasnet/faasnet/convert/start"
	"github.com/faasnet/faasnet/fs/index"
	"github.com/faasnet/faasnet/fs/index/indextest"
)

// trees reads layers, and merges them.
func trees(t *testing.T, layers ...[]byte) (below []*index.Tree, merged *index.Tree) {
	t.Helper()
	for _, l := range layers {
		tree, err := index.FromTar(bytes.NewReader(l))
		if err != nil {
			t.Fatal(err)
		}
		below = append(below, tree)
	}
	merged, err := index.Merge(below, nil)
	if err != nil {
		t.Fatal(err)
	}
	return below, merged
}

// record names files.
func record(paths ...string) start.Record {
	var r start.Record
	for _, p := range paths {
		r = append(r, start.Entry{Path: p})
	}
	return r
}

// plan plans the start layer of an image of these layers.
func plan(t *testing.T, r start.Record, layers ...[]byte) (*start.Plan, *index.Tree) {
	t.Helper()
	below, merged := trees(t, layers...)
	p := start.New(merged, r)
	if err := p.Settle(t.Context(), below, merged); err != nil {
		t.Fatal(err)
	}
	return p, merged
}

// write writes the start layer of a plan.
func write(t *testing.T, p *start.Plan, merged *index.Tree, layers ...[]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	err := p.WriteTar(&b, merged, func(w io.Writer, f index.File) error {
		for _, r := range f.Ranges() {
			if _, err := w.Write(layers[r.Device][r.Offset:][:r.Size]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// changesNothing unpacks layers as containerd does, alone and with the start
// layer top on them, and compares what overlayfs shows. false: containerd
// refuses the layers themselves.
func changesNothing(t *testing.T, top []byte, layers ...[]byte) (unpacked bool) {
	t.Helper()
	dirs, err := indextest.Unpack(t, layers...)
	if err != nil {
		return false
	}
	all, err := indextest.Unpack(t, append(layers[:len(layers):len(layers)], top)...)
	if err != nil {
		t.Fatalf("start layer: %v", err)
	}
	indextest.Compare(t, indextest.Overlay(t, dirs...), indextest.Overlay(t, all...),
		indextest.Options{SkipMtime: implicit(t, layers...), Orphans: true, OrphansInGot: true})
	return true
}

// implicit says which directories have no entry in the layer that shows them:
// containerd gives those the time of unpacking.
func implicit(t *testing.T, layers ...[]byte) func(string) bool {
	t.Helper()
	last := map[string]bool{".": true}
	below, _ := trees(t, layers...)
	for _, tree := range below {
		_ = tree.Walk(func(f index.File) error {
			if f.IsDir() {
				last[f.Path] = f.Implicit || f.Path == "."
			}
			return nil
		})
	}
	return func(path string) bool { return last[path] }
}
