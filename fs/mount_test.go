package fs

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/faasnet/faasnet/fs/index"
)

func TestMountReadsBack(t *testing.T) {
	f := newFS(t, Options{})
	big, small := random(1, 3<<20+100), random(2, 777)
	a, ta := newLayer(t, entry{name: "d/"}, entry{name: "d/big", data: big}, entry{name: "d/old", data: small})
	b, tb := newLayer(t, entry{name: "d/"}, entry{name: "d/small", data: small}, entry{name: "link", data: []byte{}, link: "d/big"})
	m := mount(t, f, []*index.Tree{ta, tb}, a, b)
	if m.Local() {
		t.Error("mount is local, want lazy")
	}
	for name, want := range map[string][]byte{"d/big": big, "d/small": small, "d/old": small, "link": big} {
		got, err := os.ReadFile(filepath.Join(m.Dir(), name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs", name)
		}
	}
	if a.views.Load() == 0 {
		t.Error("the layer was not asked")
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatalf("second close: %v", err)
	}
	if _, err := os.Stat(m.Dir()); !os.IsNotExist(err) {
		t.Errorf("mount point is still there: %v", err)
	}
}

func TestLocalMountBypassesTheDaemon(t *testing.T) {
	f := newFS(t, Options{})
	data := random(1, 1<<20)
	a, ta := newLayer(t, entry{name: "f", data: data})
	a.local.Store(true)
	m := mount(t, f, []*index.Tree{ta}, a)
	if !m.Local() {
		t.Fatal("mount is not local")
	}
	got, err := os.ReadFile(filepath.Join(m.Dir(), "f"))
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("file differs, %v", err)
	}
	if n := requests(t, f); n != 0 {
		t.Errorf("%v FUSE requests for a local mount", n)
	}
}

func TestOneLocalLayerIsNotEnough(t *testing.T) {
	f := newFS(t, Options{})
	data := random(1, 100<<10)
	a, ta := newLayer(t, entry{name: "a", data: data})
	b, tb := newLayer(t, entry{name: "b", data: data})
	a.local.Store(true)
	m := mount(t, f, []*index.Tree{ta, tb}, a, b)
	if m.Local() {
		t.Error("mount is local, want lazy")
	}
	for _, name := range []string{"a", "b"} {
		if got, err := os.ReadFile(filepath.Join(m.Dir(), name)); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s differs, %v", name, err)
		}
	}
	if a.views.Load() != 0 || b.views.Load() == 0 {
		t.Errorf("views %d of the local layer, %d of the other", a.views.Load(), b.views.Load())
	}
}
