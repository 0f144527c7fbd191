package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/convert/imagetest"
	"github.com/faasnet/faasnet/fs/index/indextest"
)

// layersOf gives the sizes of an image's layers in a layout directory, from its
// manifest.
func layersOf(t *testing.T, place string) (sizes []int64, all int64) {
	t.Helper()
	v := decode[imageView](t, first(faasnet(t, 0, "inspect", "--json", place)))
	for _, l := range v.Layers {
		sizes = append(sizes, l.Size)
		all += l.Size
	}
	return sizes, all
}

// TestSummaryOfStartLayers: the sizes are those of all that the images have, and
// start layers are said apart, also one that is replaced, kept or dropped.
func TestSummaryOfStartLayers(t *testing.T) {
	dir := t.TempDir()
	cs := newStore(t)
	var tar indextest.Tar
	tar.Add(indextest.Header{Name: "a", Body: strings.Repeat("A", 5000)}, indextest.Header{Name: "a2", Type: '1', Link: "a"},
		indextest.Header{Name: "b", Body: "B"}, indextest.Header{Name: "empty"})
	src := imagetest.Put(t, cs, imagetest.Image{Layers: []imagetest.Layer{{Tar: files(map[string]string{"c": "C"})}, {Tar: tar.Bytes()}}})
	put(t, cs, src, "oci:"+filepath.Join(dir, "src:1"))
	var source int64
	for _, l := range imagetest.Read[ocispec.Manifest](t, cs, src).Layers {
		source += l.Size
	}
	record := func(names ...string) string {
		var text strings.Builder
		for _, n := range names {
			fmt.Fprintf(&text, "{\"path\":%q}\n", n)
		}
		name := filepath.Join(t.TempDir(), "record")
		if err := os.WriteFile(name, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	place := func(name string) string { return "oci:" + filepath.Join(dir, name+":1") }
	convert := func(from, to string, flags ...string) (summary, string) {
		t.Helper()
		text, _ := faasnet(t, 0, append(append([]string{"convert", "-q"}, flags...), place(from), place(to))...)
		s := decode[summary](t, first(faasnet(t, 0, append(append([]string{"convert", "-q", "--json"}, flags...), place(from), place(to))...)))
		if _, all := layersOf(t, place(to)); s.BytesOut != all || !strings.Contains(text, size(s.BytesIn)+" -> "+size(all)) {
			t.Errorf("%s to %s: %d bytes, the image has %d: %s", from, to, s.BytesOut, all, text)
		}
		return s, text
	}

	one, text := convert("src", "one", "--record-in", record("a", "a2", "b", "empty", "none"))
	sizes, all := layersOf(t, place("one"))
	if one.BytesIn != source || one.StartIn != 0 || one.StartOut != sizes[2] || len(one.Layers) != 2 {
		t.Errorf("summary is %+v", one)
	}
	for _, want := range []string{"\n2 layers (0 reused) and a start layer of " + size(sizes[2]) + ", ", "start layer: 2 files, " + size(sizes[2]) + "; left out: 1 not in the image, 0 little used, 1 empty, 1 other names, 0 other\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("summary is %q, want %q", text, want)
		}
	}
	kept, text := convert("one", "kept")
	if kept.BytesIn != all || kept.BytesOut != all || kept.StartIn != sizes[2] || kept.StartOut != sizes[2] || len(kept.Layers) != 2 || !strings.Contains(text, "+0.0 %") {
		t.Errorf("summary is %+v, %s", kept, text)
	}
	other, text := convert("one", "other", "--record-in", record("b"))
	now, _ := layersOf(t, place("other"))
	if other.BytesIn != all || other.StartIn != sizes[2] || other.StartOut != now[2] || len(other.Layers) != 2 || other.Reused != 2 ||
		!strings.Contains(text, "\n2 layers (2 reused) and a start layer of "+size(now[2])+", which was "+size(sizes[2])+", ") || !strings.Contains(text, "start layer: 1 file, ") {
		t.Errorf("summary is %+v, %s", other, text)
	}
	none, text := convert("one", "none", "--record-in", record("none"))
	if none.StartIn != sizes[2] || none.StartOut != 0 || len(none.Layers) != 2 || !strings.Contains(text, " without the start layer of "+size(sizes[2])) {
		t.Errorf("summary is %+v, %s", none, text)
	}
}
