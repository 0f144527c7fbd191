package convert_test

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/convert"
	"github.com/faasnet/faasnet/convert/imagetest"
	"github.com/faasnet/faasnet/convert/start"
	"github.com/faasnet/faasnet/fs/index"
	"github.com/faasnet/faasnet/fs/index/indextest"
	"github.com/faasnet/faasnet/fs/layer"
)

// recordOf names files.
func recordOf(paths ...string) start.Record {
	var r start.Record
	for _, p := range paths {
		r = append(r, start.Entry{Path: p})
	}
	return r
}

// starts says which layers of an image are start layers.
func starts(m ocispec.Manifest) (at []int) {
	for i, l := range m.Layers {
		if l.Annotations[layer.LabelStart] == "true" {
			at = append(at, i)
		}
	}
	return at
}

// mustConvert converts and returns the new manifest with its descriptor.
func mustConvert(t *testing.T, cs content.Store, d ocispec.Descriptor, o convert.Options) (ocispec.Descriptor, ocispec.Manifest) {
	t.Helper()
	out, err := convert.Image(t.Context(), cs, d, o)
	if err != nil {
		t.Fatal(err)
	}
	return *out, imagetest.Read[ocispec.Manifest](t, cs, *out)
}

// twoLayers is an image whose upper layer hides files of the lower one.
func twoLayers(t *testing.T, cs content.Store) (ocispec.Descriptor, [][]byte) {
	t.Helper()
	var base, top indextest.Tar
	base.Add(indextest.Header{Name: "bin", Type: '5', Mode: 0o711}, indextest.Header{Name: "bin/a", Body: strings.Repeat("A", 9000), Mode: 0o4755},
		indextest.Header{Name: "bin/b", Type: '1', Link: "bin/a"}, indextest.Header{Name: "old", Body: "old"}, indextest.Header{Name: "etc/c", Body: "old"})
	top.Add(indextest.Header{Name: ".wh.old"}, indextest.Header{Name: "etc", Type: '5'}, indextest.Header{Name: "etc/c", Body: "new"})
	tars := [][]byte{base.Bytes(), top.Bytes()}
	return imagetest.Put(t, cs, imagetest.Image{Layers: []imagetest.Layer{{Tar: tars[0]}, {Tar: tars[1]}}}), tars
}

func TestStartLayer(t *testing.T) {
	cs := newStore(t)
	src, tars := twoLayers(t, cs)
	var r reports
	out, m := mustConvert(t, cs, src, convert.Options{Record: recordOf("etc/c", "old", "bin/b"), Progress: &r})
	config := imagetest.Read[ocispec.Image](t, cs, m.Config)
	if len(m.Layers) != 4 || len(config.RootFS.DiffIDs) != 4 || len(config.History) != 4 || !slices.Equal(starts(m), []int{2}) {
		t.Fatalf("%d layers, %d diff IDs, %d history entries, start layers %v, want 4 each and layer 2", len(m.Layers), len(config.RootFS.DiffIDs), len(config.History), starts(m))
	}
	if len(r.warned) != 1 || !strings.Contains(r.warned[0], `1 of 3 paths in the record are no files of the image, the first is "old"`) {
		t.Errorf("warnings are %q", r.warned)
	}
	if len(r.start) != 1 || r.start[0].Files != 2 || r.start[0].Unknown != 1 || r.start[0].Target != m.Layers[2].Digest {
		t.Errorf("report is %+v", r.start)
	}
	top := untar(t, cs, m.Layers[2])
	if got := digest.FromBytes(top); got != config.RootFS.DiffIDs[2] {
		t.Errorf("tar stream has digest %s, diff ID is %s", got, config.RootFS.DiffIDs[2])
	}
	all := append(slices.Clone(tars), top)
	sameTree(t, cs, out, all...)
	dirs, err := indextest.Unpack(t, tars...)
	if err != nil {
		t.Fatal(err)
	}
	_, _, img := section(t, cs, m.Layers[3])
	o := indextest.Options{SkipMtime: implicit(t, tars)}
	indextest.Compare(t, indextest.Overlay(t, dirs...), indextest.EROFS(t, img.Index, indextest.Files(t, all...)...), o)
	tree, err := index.Decode(img.Index, []int64{int64(len(tars[0])), int64(len(tars[1])), int64(len(top))})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"etc/c", "bin/a", "bin/b"} {
		if f, err := tree.Lookup(name); err != nil || f.Ranges()[0].Device != 2 {
			t.Errorf("%s is read from %+v, %v, want device 2", name, f.Ranges(), err)
		}
	}
}

func TestStartLayerAgain(t *testing.T) {
	cs := newStore(t)
	src, _ := twoLayers(t, cs)
	o := convert.Options{Record: recordOf("etc/c", "bin/a")}
	first, _ := mustConvert(t, cs, src, o)
	for name, o := range map[string]convert.Options{"without a record": {}, "with the same": o} {
		if again, _ := mustConvert(t, cs, first, o); again.Digest != first.Digest {
			t.Errorf("%s the image becomes %s, was %s", name, again.Digest, first.Digest)
		}
	}
	want, _ := mustConvert(t, cs, src, convert.Options{Record: recordOf("bin/b")})
	if got, _ := mustConvert(t, cs, first, convert.Options{Record: recordOf("bin/b")}); got.Digest != want.Digest {
		t.Errorf("with another record the image becomes %s, want %s as from the source", got.Digest, want.Digest)
	}
	plain, _ := mustConvert(t, cs, src, convert.Options{})
	var r reports
	if got, _ := mustConvert(t, cs, first, convert.Options{Record: recordOf("none"), Progress: &r}); got.Digest != plain.Digest || len(r.warned) != 2 {
		t.Errorf("with a record of nothing the image becomes %s, want %s; warnings are %q", got.Digest, plain.Digest, r.warned)
	}
	again, other := mustConvert(t, cs, first, convert.Options{BlockSize: 4096})
	if want, _ := mustConvert(t, cs, src, convert.Options{BlockSize: 4096, Record: o.Record}); again.Digest != want.Digest {
		t.Errorf("with other options the image becomes %s, want %s as from the source", again.Digest, want.Digest)
	}
	if _, meta, _ := section(t, cs, other.Layers[2]); meta.Table.BlockSize() != 4096 || !slices.Equal(starts(other), []int{2}) {
		t.Errorf("with other options the start layer is %v with blocks of %d", starts(other), meta.Table.BlockSize())
	}
}

// TestStartLayerOfBase: an image is built on one with a start layer.
func TestStartLayerOfBase(t *testing.T) {
	cs := newStore(t)
	src, tars := twoLayers(t, cs)
	_, m := mustConvert(t, cs, src, convert.Options{Record: recordOf("etc/c", "bin/a")})
	tar := tarOf(7, 2, 100)
	built := builtOn(t, cs, m, tar, ocispec.MediaTypeImageLayer)
	kept, k := mustConvert(t, cs, built, convert.Options{})
	if len(k.Layers) != 5 || len(starts(k)) != 0 {
		t.Errorf("%d layers, start layers %v, want 5 and none", len(k.Layers), starts(k))
	}
	sameTree(t, cs, kept, tars[0], tars[1], untar(t, cs, k.Layers[2]), tar)
	_, d := mustConvert(t, cs, built, convert.Options{Record: recordOf("d7/f0")})
	if len(d.Layers) != 5 || !slices.Equal(starts(d), []int{3}) {
		t.Errorf("%d layers, start layers %v, want 5 and layer 3", len(d.Layers), starts(d))
	}
	var by []string
	for _, h := range imagetest.Read[ocispec.Image](t, cs, d.Config).History {
		by = append(by, h.CreatedBy)
	}
	if want := []string{"test", "test", "COPY", "faasnet convert # start layer", "faasnet convert # index layer"}; !slices.Equal(by, want) {
		t.Errorf("history is %q, want %q", by, want)
	}
}

func TestStartLayerOfPlatforms(t *testing.T) {
	cs := newStore(t)
	var r reports
	out, err := convert.Image(t.Context(), cs, nested(t, cs), convert.Options{Record: recordOf("d1/f0", "d2/f0"), Progress: &r})
	if err != nil {
		t.Fatal(err)
	}
	outer := imagetest.Read[ocispec.Index](t, cs, *out)
	inner := imagetest.Read[ocispec.Index](t, cs, outer.Manifests[0])
	for i, want := range []int{1, 1, 0} { // s390x has none of them
		m := imagetest.Read[ocispec.Manifest](t, cs, append(inner.Manifests, outer.Manifests[1])[i])
		if got := len(starts(m)); got != want {
			t.Errorf("manifest %d has %d start layers, want %d", i, got, want)
		}
	}
	mediaTypes(t, cs, *out)
	if text := strings.Join(r.warned, "\n"); len(r.warned) != 4 || !strings.Contains(text, "the image gets none") {
		t.Errorf("warnings are\n%s", text)
	}
}

func TestNoStartLayerOnForeignLayers(t *testing.T) {
	cs := newStore(t)
	src := imagetest.Put(t, cs, imagetest.Image{Layers: []imagetest.Layer{{Tar: tarOf(1, 2, 10)}, {Tar: tarOf(2, 2, 10), MediaType: images.MediaTypeDockerSchema2LayerForeignGzip}}})
	var r reports
	out, m := mustConvert(t, cs, src, convert.Options{Record: recordOf("d1/f0"), Progress: &r})
	if len(m.Layers) != 2 || len(starts(m)) != 0 {
		t.Errorf("layers are %+v", m.Layers)
	}
	m.Layers[0].Annotations[layer.LabelStart] = "true"
	if again, _ := mustConvert(t, cs, imagetest.JSON(t, cs, ocispec.MediaTypeImageManifest, m), convert.Options{}); again.Digest != out.Digest {
		t.Errorf("without an index layer a start layer stays one")
	}
	if len(r.warned) != 1 || !strings.Contains(r.warned[0], "neither a start layer nor an index layer") {
		t.Errorf("warnings are %q", r.warned)
	}
}

// TestStartLayerSameBytes also reads the files from layers that lie elsewhere.
func TestStartLayerSameBytes(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	below := newStore(t)
	tars := []imagetest.Layer{{Tar: tarOf(1, 40, 30_000)}, {Tar: tarOf(2, 40, 30_000)}}
	src := imagetest.Put(t, below, imagetest.Image{Layers: tars})
	o := convert.Options{BlockSize: 16 << 10, Record: recordOf("d2/f9", "d1/f7", "d2/f1", "d1/f39", "d1/f1")}
	plain, _ := mustConvert(t, below, src, convert.Options{BlockSize: o.BlockSize})
	reuse, err := convert.ReadReuse(t.Context(), below, plain)
	if err != nil {
		t.Fatal(err)
	}
	var want digest.Digest
	for i := range 12 {
		runtime.GOMAXPROCS(1 + i%2)
		o.Workers, o.Existing = 1+i%3, nil
		if i%4 == 3 {
			o.Existing = reuse.Find
		}
		out, _ := mustConvert(t, newStore(t, below), src, o)
		if want == "" {
			want = out.Digest
		}
		if out.Digest != want {
			t.Fatalf("conversion %d gives %s, the first gave %s", i, out.Digest, want)
		}
	}
}
