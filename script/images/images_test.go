package images

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

func TestHotFilesOfImageC(t *testing.T) {
	files, bytes := 0, 0
	for layer := range dataCount {
		mine := sizes(layer)
		if (len(mine) > 0) != (layer < hotLayers) {
			t.Errorf("layer %d has %d hot files", layer, len(mine))
		}
		for _, n := range mine {
			if n <= 0 {
				t.Fatalf("layer %d has a hot file of %d bytes", layer, n)
			}
			files, bytes = files+1, bytes+n
		}
	}
	if files != hotFiles || bytes != hotBytes {
		t.Errorf("%d hot files of %d bytes, want %d of %d", files, bytes, hotFiles, hotBytes)
	}
}

// write writes an image with two layers and returns its layout.
func write(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layout")
	w, err := NewWriter(dir)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "one"), []byte("content"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(root, "one"), filepath.Join(root, "two")); err != nil {
		t.Fatal(err)
	}
	w.Add("tree", Dir(root))
	w.Add("data", func(tw *tar.Writer) error { return dataLayer(tw, 0) })
	if err := w.Close("test", []string{"/one"}); err != nil {
		t.Fatal(err)
	}
	if s := w.Size(); s.Layers != 2 || s.Tar < dataBytes {
		t.Errorf("size is %v", s)
	}
	return dir
}

func document[T any](t *testing.T, path string) (v T) {
	t.Helper()
	p, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(p, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestLayout(t *testing.T) {
	dir := write(t)
	desc := document[ocispec.Index](t, filepath.Join(dir, "index.json")).Manifests[0]
	if again := document[ocispec.Index](t, filepath.Join(write(t), "index.json")).Manifests[0]; again.Digest != desc.Digest {
		t.Errorf("a second run gives %v, the first gave %v", again.Digest, desc.Digest)
	}
	manifest := document[ocispec.Manifest](t, filepath.Join(dir, "blobs/sha256", desc.Digest.Encoded()))
	f, err := os.Open(filepath.Join(dir, "blobs/sha256", manifest.Layers[0].Digest.Encoded()))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	tr := tar.NewReader(zr)
	one, err := tr.Next()
	if err != nil || one.Name != "one" || one.Mode != 0o640 || one.Size != 7 || one.ModTime.After(epoch) {
		t.Errorf("first entry is %+v, %v", one, err)
	}
	two, err := tr.Next()
	if err != nil || two.Typeflag != tar.TypeLink || two.Linkname != "one" {
		t.Errorf("second entry is %+v, %v", two, err)
	}
	if _, err := tr.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last entry: %v", err)
	}
}

func TestFailedLayerFailsTheImage(t *testing.T) {
	w, err := NewWriter(filepath.Join(t.TempDir(), "layout"))
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	w.Add("bad", func(*tar.Writer) error { return broken })
	if err := w.Close("test", nil); !errors.Is(err, broken) {
		t.Errorf("Close gives %v", err)
	}
}

func TestUnknownImage(t *testing.T) {
	if _, err := Build(t.Context(), t.TempDir(), "z", io.Discard); err == nil {
		t.Error("image z was built")
	}
}

func TestSmallImages(t *testing.T) {
	w, err := NewWriter(filepath.Join(t.TempDir(), "layout"))
	if err != nil {
		t.Fatal(err)
	}
	hot := []int{7, 1000, 31_000}
	for image := range byte(2) {
		w.Add("data", func(tw *tar.Writer) error { return mixedLayer(tw, newGenerator('1'+image, 0), 0, 1<<20, hot) })
	}
	if err := w.Close("test", nil); err != nil {
		t.Fatal(err)
	}
	if a, b := w.layers[0], w.layers[1]; a.diffID == b.diffID || a.tar < 1<<20 || a.tar > 2<<20 {
		t.Errorf("layers of two images are %v of %d bytes and %v", a.diffID, a.tar, b.diffID)
	}
	for _, name := range Small() {
		if !IsName(name) {
			t.Errorf("%s is not one of ours", name)
		}
	}
}
