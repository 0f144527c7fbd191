package convert_test

import (
	"maps"
	"sync"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/convert"
	"github.com/faasnet/faasnet/convert/imagetest"
	"github.com/faasnet/faasnet/fs/block"
)

// reports is a convert.Progress that counts.
type reports struct {
	mu     sync.Mutex // guards what follows
	reused int
	fresh  int
	warned []string
	start  []convert.StartReport
	images []convert.ImageReport
}

func (r *reports) Plan(ocispec.Descriptor)  {}
func (r *reports) Begin(ocispec.Descriptor) {}
func (r *reports) Read(int)                 {}

func (r *reports) Start(s convert.StartReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.start = append(r.start, s)
}

func (r *reports) Image(i convert.ImageReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.images = append(r.images, i)
}

func (r *reports) Warn(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.warned = append(r.warned, text)
}

func (r *reports) End(l convert.LayerReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.Reused {
		r.reused++
	} else {
		r.fresh++
	}
}

func TestReuse(t *testing.T) {
	base, top := tarOf(1, 3, 9000), tarOf(2, 3, 9000)
	small := imagetest.Image{Layers: []imagetest.Layer{{Tar: base}}}
	// The same tar stream, compressed otherwise.
	large := imagetest.Image{Layers: []imagetest.Layer{{Tar: base, MediaType: ocispec.MediaTypeImageLayerZstd}, {Tar: top}}}

	t.Run("from the content store", func(t *testing.T) {
		cs := newStore(t)
		if _, err := convert.Image(t.Context(), cs, imagetest.Put(t, cs, small), convert.Options{}); err != nil {
			t.Fatal(err)
		}
		var r reports
		if _, err := convert.Image(t.Context(), cs, imagetest.Put(t, cs, large), convert.Options{Progress: &r}); err != nil {
			t.Fatal(err)
		}
		if r.reused != 1 || r.fresh != 1 {
			t.Errorf("%d layers reused, %d converted, want 1 and 1", r.reused, r.fresh)
		}
	})
	t.Run("not with other options", func(t *testing.T) {
		cs := newStore(t)
		out, err := convert.Image(t.Context(), cs, imagetest.Put(t, cs, small), convert.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range []convert.Options{{BlockSize: 4096}, {Level: block.LevelFastest}} {
			var r reports
			o.Progress = &r
			// A converted layer is a source like any other one.
			again, err := convert.Image(t.Context(), cs, *out, o)
			if err != nil {
				t.Fatal(err)
			}
			if r.reused != 0 || r.fresh != 1 || again.Digest == out.Digest {
				t.Errorf("%d layers reused, %d converted, want 0 and 1", r.reused, r.fresh)
			}
			if n := len(imagetest.Read[ocispec.Manifest](t, cs, *again).Layers); n != 2 {
				t.Errorf("%d layers, want 2", n)
			}
		}
	})
	t.Run("from another image", func(t *testing.T) {
		there, here := newStore(t), newStore(t)
		out, err := convert.Image(t.Context(), there, imagetest.Put(t, there, small), convert.Options{})
		if err != nil {
			t.Fatal(err)
		}
		known, err := convert.ReadReuse(t.Context(), there, *out)
		if err != nil {
			t.Fatal(err)
		}
		cs := newStore(t, known, here)
		var r reports
		if _, err := convert.Image(t.Context(), cs, imagetest.Put(t, here, large), convert.Options{Existing: known.Find, Progress: &r}); err != nil {
			t.Fatal(err)
		}
		if r.reused != 1 || r.fresh != 1 {
			t.Errorf("%d layers reused, %d converted, want 1 and 1", r.reused, r.fresh)
		}
	})
	t.Run("not what is gone", func(t *testing.T) {
		there, here := newStore(t), newStore(t)
		out, err := convert.Image(t.Context(), there, imagetest.Put(t, there, small), convert.Options{})
		if err != nil {
			t.Fatal(err)
		}
		known, err := convert.ReadReuse(t.Context(), there, *out)
		if err != nil {
			t.Fatal(err)
		}
		if err := there.Delete(t.Context(), imagetest.Read[ocispec.Manifest](t, there, *out).Layers[0].Digest); err != nil {
			t.Fatal(err)
		}
		var r reports
		if _, err := convert.Image(t.Context(), newStore(t, known, here), imagetest.Put(t, here, large), convert.Options{Existing: known.Find, Progress: &r}); err != nil {
			t.Fatal(err)
		}
		if r.fresh != 2 || len(r.warned) != 1 {
			t.Errorf("%d layers converted, %d warnings, want 2 and 1", r.fresh, len(r.warned))
		}
	})
}

func TestIndexLayerOfTheBase(t *testing.T) {
	cs := newStore(t)
	base := image(t, cs, convert.Options{}, tarOf(1, 3, 10), tarOf(2, 3, 10))
	// What a build makes of a converted base image: its layers and one more.
	m := imagetest.Read[ocispec.Manifest](t, cs, base)
	config := imagetest.Read[ocispec.Image](t, cs, m.Config)
	top := tarOf(3, 3, 10)
	m.Layers = append(m.Layers, imagetest.Blob(t, cs, ocispec.MediaTypeImageLayer, top))
	config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, digest.FromBytes(top))
	config.History = append(config.History, ocispec.History{CreatedBy: "RUN", EmptyLayer: true}, ocispec.History{CreatedBy: "COPY"})
	m.Config = imagetest.JSON(t, cs, ocispec.MediaTypeImageConfig, config)
	out, err := convert.Image(t.Context(), cs, imagetest.JSON(t, cs, ocispec.MediaTypeImageManifest, m), convert.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sameTree(t, cs, *out, tarOf(1, 3, 10), tarOf(2, 3, 10), top)
	got := imagetest.Read[ocispec.Image](t, cs, imagetest.Read[ocispec.Manifest](t, cs, *out).Config).History
	var by []string
	for _, h := range got {
		by = append(by, h.CreatedBy)
	}
	if want := []string{"test", "test", "RUN", "COPY", "faasnet convert # index layer"}; len(by) != 5 || by[2] != want[2] || by[3] != want[3] || by[4] != want[4] {
		t.Errorf("history is %q, want %q", by, want)
	}
}

func TestAnnotations(t *testing.T) {
	cs := newStore(t)
	kept := map[string]string{"org.example.team": "a", "buildkit/rewritten-timestamp": "0"}
	given := map[string]string{
		"containerd.io/snapshot/stargz/toc.digest":              "sha256:00",
		"containerd.io/snapshot/faasnet/version":                "77",
		"io.containers.estargz.uncompressed-size":               "1",
		"io.github.containers.zstd-chunked.manifest-checksum":   "sha256:00",
		"containerd.io/snapshot/remote/stargz.reference.digest": "sha256:00",
	}
	maps.Copy(given, kept)
	src := imagetest.Put(t, cs, imagetest.Image{Layers: []imagetest.Layer{{Tar: tarOf(1, 1, 1), Annotations: given}}})
	out, err := convert.Image(t.Context(), cs, src, convert.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := imagetest.Read[ocispec.Manifest](t, cs, *out).Layers[0]
	info, _, _ := section(t, cs, l)
	want := info.Annotations()
	maps.Copy(want, kept)
	want[convert.AnnotationOptions] = "block=524288,level=default"
	if !maps.Equal(l.Annotations, want) {
		t.Errorf("annotations are %v, want %v", l.Annotations, want)
	}
}

func TestArtefactsStay(t *testing.T) {
	cs := newStore(t)
	file := imagetest.Blob(t, cs, ocispec.MediaTypeImageLayer, tarOf(1, 1, 1))
	m := ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, ArtifactType: "application/vnd.example", Layers: []ocispec.Descriptor{file}}
	m.SchemaVersion, m.Config = 2, imagetest.Blob(t, cs, ocispec.MediaTypeEmptyJSON, []byte("{}"))
	artefact := imagetest.JSON(t, cs, ocispec.MediaTypeImageManifest, m)
	out, err := convert.Image(t.Context(), cs, artefact, convert.Options{})
	if err != nil || out.Digest != artefact.Digest {
		t.Errorf("got %v, %v, want the artefact as it was", out, err)
	}
	img := imagetest.Put(t, cs, imagetest.Image{Layers: []imagetest.Layer{{Tar: tarOf(1, 1, 1)}}})
	idx := imagetest.Index(t, cs, ocispec.MediaTypeImageIndex, img, artefact)
	if out, err = convert.Image(t.Context(), cs, idx, convert.Options{}); err != nil {
		t.Fatal(err)
	}
	if got := imagetest.Read[ocispec.Index](t, cs, *out).Manifests[1]; got.Digest != artefact.Digest {
		t.Errorf("artefact is now %v", got)
	}
}

func TestLayersThatCannotBeConverted(t *testing.T) {
	cs := newStore(t)
	src := imagetest.Put(t, cs, imagetest.Image{Layers: []imagetest.Layer{
		{Tar: tarOf(1, 1, 1), MediaType: "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip"},
		{Tar: tarOf(2, 1, 1)},
	}})
	var r reports
	out, err := convert.Image(t.Context(), cs, src, convert.Options{Progress: &r})
	if err != nil {
		t.Fatal(err)
	}
	m := imagetest.Read[ocispec.Manifest](t, cs, *out)
	if len(m.Layers) != 2 || m.Layers[0].Digest == m.Layers[1].Digest || r.fresh != 1 || len(r.warned) != 1 {
		t.Errorf("%d layers, %d converted, warnings %q; want 2, 1 and one", len(m.Layers), r.fresh, r.warned)
	}
	if _, _, img := section(t, cs, m.Layers[1]); img != nil {
		t.Error("image has an index layer")
	}
	_, err = convert.Image(t.Context(), cs, m.Config, convert.Options{})
	if !errdefs.IsInvalidArgument(err) {
		t.Errorf("converting a config gives %v", err)
	}
}
