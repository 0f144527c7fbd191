package micro

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/faasnet/faasnet/fs/block"
)

func write(t *testing.T, size int, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func do(t *testing.T, name, root string) Done {
	t.Helper()
	w, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	d, err := w.Do(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	if d.Seconds <= 0 {
		t.Errorf("%s took no time", name)
	}
	return d
}

func TestWalkSeesEveryFile(t *testing.T) {
	root := t.TempDir()
	write(t, 100, root+"/a", root+"/d/b", root+"/d/e/c")
	if d := do(t, "walk", root); d.Items != 6 || d.Bytes != 300 { // root and two more directories
		t.Errorf("got %+v", d)
	}
}

func TestReading(t *testing.T) {
	root := t.TempDir()
	write(t, randomFile, root+"/data/03/a", root+"/data/05/z/b")
	write(t, 10, root+"/data/04/small", root+"/data/06/not", root+"/data/02/not")
	if d := do(t, "seq", root); d.Items != 3 || d.Bytes != 2*randomFile+10 {
		t.Errorf("sequential: %+v", d)
	}
	if d := do(t, "rand", root); d.Items != randomReads || d.Bytes != randomReads*randomRead {
		t.Errorf("random: %+v", d)
	}
}

func TestMapped(t *testing.T) {
	root := t.TempDir()
	lib := root + "/usr/lib/x/openblas-pthread/libopenblasp-r1.so"
	write(t, 3*os.Getpagesize()+1, lib)
	if d := do(t, "mmap", root); d.Items != 1 || d.Bytes != int64(3*os.Getpagesize()+1) {
		t.Errorf("got %+v", d)
	}
}

// A page that is mapped and cannot be read must not end the process.
func TestMappedPageIsGone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	write(t, 2*os.Getpagesize(), file)
	var d Done
	err := d.touchWith(file, func() {
		if err := os.Truncate(file, 1); err != nil {
			t.Fatal(err)
		}
	})
	if err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("got %v", err)
	}
}

func TestNothingToDoIsAnError(t *testing.T) {
	root := t.TempDir()
	write(t, 10, root+"/data/03/a", root+"/data/04/a", root+"/data/05/a")
	for _, name := range []string{"rand", "mmap", "exec", "import"} {
		w, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := w.Do(t.Context(), root); err == nil {
			t.Errorf("%s did %+v", name, d)
		}
	}
	if _, err := Find("sleep"); err == nil {
		t.Error("an unknown work is no error")
	}
}

func TestSampleOfGeneratedImage(t *testing.T) {
	i := Layered{Layers: 2, Files: 3, Blob: (left + 2) * block.DefaultSize, Seed: 1}
	layout, err := i.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := Sample(layout)
	if err != nil {
		t.Fatal(err)
	}
	if len(blocks) != 4 {
		t.Errorf("%d blocks of two layers", len(blocks))
	}
	for _, b := range blocks {
		if len(b) != block.DefaultSize {
			t.Errorf("a block of %d bytes", len(b))
		}
	}
	small := Layered{Layers: 1, Files: 3, Seed: 2}
	if layout, err = small.Build(t.Context(), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if _, err := Sample(layout); err == nil {
		t.Error("an image without large layers is no error")
	}
}

func TestLayeredEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Layered{Layers: 1}).Build(ctx, t.TempDir()); err == nil {
		t.Error("built")
	}
}
