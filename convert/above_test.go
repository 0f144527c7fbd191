package convert_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/labels"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/convert"
	"github.com/faasnet/faasnet/convert/imagetest"
	"github.com/faasnet/faasnet/fs/layer"
)

const keyAbove = "containerd.io/snapshot/faasnet/above"

// saysAbove checks that each layer below the index layer of an image names it and,
// if there is one, the start layer.
func saysAbove(t *testing.T, m ocispec.Manifest) {
	t.Helper()
	top := len(m.Layers) - 1
	info, err := layer.FromLabels(m.Layers[top].Annotations)
	if err != nil || info.Image == nil {
		t.Fatalf("there is no index layer on top: %v", err)
	}
	var start digest.Digest
	for _, i := range starts(m) {
		start = m.Layers[i].Digest
	}
	want := layer.AboveOf(info, start).String()
	for i, l := range m.Layers[:top] {
		if got := l.Annotations[keyAbove]; got != want {
			t.Errorf("layer %d of %d says %q, want %q", i, top, got, want)
		}
	}
	if got, ok := m.Layers[top].Annotations[keyAbove]; ok {
		t.Errorf("the index layer says %q", got)
	}
}

// builtOn is an image as a build makes it: the layers of a converted one, as they
// are, and one more.
func builtOn(t *testing.T, cs content.Store, m ocispec.Manifest, tar []byte, mediaType string) ocispec.Descriptor {
	t.Helper()
	config := imagetest.Read[ocispec.Image](t, cs, m.Config)
	m.Layers = append(m.Layers, imagetest.Blob(t, cs, mediaType, tar))
	config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, digest.FromBytes(tar))
	config.History = append(config.History, ocispec.History{CreatedBy: "COPY"})
	m.Config = imagetest.JSON(t, cs, ocispec.MediaTypeImageConfig, config)
	return imagetest.JSON(t, cs, ocispec.MediaTypeImageManifest, m)
}

func TestAbove(t *testing.T) {
	cs := newStore(t)
	src, _ := twoLayers(t, cs)
	first, second := convert.Options{Record: recordOf("etc/c", "bin/a")}, convert.Options{Record: recordOf("bin/b")}
	plain, m := mustConvert(t, cs, src, convert.Options{})
	saysAbove(t, m)
	started, m := mustConvert(t, cs, src, first)
	if len(starts(m)) != 1 {
		t.Fatalf("start layers are %v, want 1", starts(m))
	}
	saysAbove(t, m)
	other, _ := mustConvert(t, cs, src, second)
	for name, c := range map[string]struct {
		from ocispec.Descriptor
		o    convert.Options
		want ocispec.Descriptor
	}{
		"again":                            {plain, convert.Options{}, plain},
		"again with a start layer":         {started, convert.Options{}, started},
		"again with the same record":       {started, first, started},
		"with the first start layer":       {plain, first, started},
		"with another start layer":         {started, second, other},
		"without a start layer any longer": {started, convert.Options{Record: recordOf("none")}, plain},
	} {
		t.Run(name, func(t *testing.T) {
			out, m := mustConvert(t, cs, c.from, c.o)
			saysAbove(t, m)
			if out.Digest != c.want.Digest {
				t.Errorf("the image becomes %s, want %s", out.Digest, c.want.Digest)
			}
		})
	}
}

// rewritten is an image whose layers say value of what is above them.
func rewritten(t *testing.T, cs content.Store, m ocispec.Manifest, value string) ocispec.Descriptor {
	t.Helper()
	m.Layers = slices.Clone(m.Layers)
	for i, l := range m.Layers {
		m.Layers[i].Annotations = maps.Clone(l.Annotations)
		if m.Layers[i].Annotations[keyAbove] = value; value == "" {
			delete(m.Layers[i].Annotations, keyAbove)
		}
	}
	return imagetest.JSON(t, cs, ocispec.MediaTypeImageManifest, m)
}

// TestAboveIsReplaced: a source that says nothing of it, or what is not so.
func TestAboveIsReplaced(t *testing.T) {
	cs := newStore(t)
	src, _ := twoLayers(t, cs)
	plain, p := mustConvert(t, cs, src, convert.Options{})
	started, s := mustConvert(t, cs, src, convert.Options{Record: recordOf("bin/a")})
	for name, c := range map[string]struct{ from, want ocispec.Descriptor }{
		"of an older version":                    {rewritten(t, cs, p, ""), plain},
		"of an older version with a start layer": {rewritten(t, cs, s, ""), started},
		"of another image":                       {rewritten(t, cs, s, p.Layers[0].Annotations[keyAbove]), started},
		"of another image with a start layer":    {rewritten(t, cs, p, s.Layers[0].Annotations[keyAbove]), plain},
		"malformed":                              {rewritten(t, cs, p, "x"), plain},
	} {
		t.Run(name, func(t *testing.T) {
			out, m := mustConvert(t, cs, c.from, convert.Options{})
			saysAbove(t, m)
			if out.Digest != c.want.Digest {
				t.Errorf("the image becomes %s, want %s", out.Digest, c.want.Digest)
			}
		})
	}
}

// TestAboveOfBase: the base image of an image was converted for itself.
func TestAboveOfBase(t *testing.T) {
	cs := newStore(t)
	src, _ := twoLayers(t, cs)
	for _, o := range []convert.Options{{}, {Record: recordOf("bin/a")}} {
		_, base := mustConvert(t, cs, src, o)
		built := builtOn(t, cs, base, tarOf(7, 2, 100), ocispec.MediaTypeImageLayer)
		for _, o := range []convert.Options{{}, {Record: recordOf("d7/f0")}} {
			out, m := mustConvert(t, cs, built, o)
			saysAbove(t, m)
			if again, _ := mustConvert(t, cs, out, o); again.Digest != out.Digest {
				t.Errorf("converted again the image becomes %s, was %s", again.Digest, out.Digest)
			}
		}
		// No index layer: the layers of the base say nothing any more.
		_, m := mustConvert(t, cs, builtOn(t, cs, base, tarOf(8, 2, 100), images.MediaTypeDockerSchema2LayerForeign), convert.Options{})
		for i, l := range m.Layers {
			if got, ok := l.Annotations[keyAbove]; ok {
				t.Errorf("layer %d of an image without an index layer says %q", i, got)
			}
		}
	}
}

// TestAboveOfPlatforms: a layer of several images says something else in each.
func TestAboveOfPlatforms(t *testing.T) {
	cs := newStore(t)
	base := imagetest.Layer{Tar: tarOf(1, 3, 100)}
	var of []ocispec.Descriptor
	for i, arch := range []string{"amd64", "arm64"} {
		of = append(of, imagetest.Put(t, cs, imagetest.Image{
			Platform: ocispec.Platform{OS: "linux", Architecture: arch}, Layers: []imagetest.Layer{base, {Tar: tarOf(uint64(i+2), 3, 100)}},
		}))
	}
	out, err := convert.Image(t.Context(), cs, imagetest.Index(t, cs, ocispec.MediaTypeImageIndex, of...), convert.Options{Record: recordOf("d1/f1")})
	if err != nil {
		t.Fatal(err)
	}
	said := make(map[string]bool)
	for _, d := range imagetest.Read[ocispec.Index](t, cs, *out).Manifests {
		m := imagetest.Read[ocispec.Manifest](t, cs, d)
		saysAbove(t, m)
		said[m.Layers[0].Annotations[keyAbove]] = true
	}
	if len(said) != len(of) {
		t.Errorf("the layer that is in %d images says %v", len(of), said)
	}
}

// TestAboveInManifest: what it costs, as docs/format.md says.
func TestAboveInManifest(t *testing.T) {
	cs := newStore(t)
	src, _ := twoLayers(t, cs)
	out, m := mustConvert(t, cs, src, convert.Options{Record: recordOf("bin/a")})
	without := rewritten(t, cs, m, "")
	if each := (out.Size - without.Size) / int64(len(m.Layers)-1); each < 250 || each > 300 {
		t.Errorf("it takes %d bytes a layer", each)
	}
}

// TestAboveOfReuse: layers are used again that another image has.
func TestAboveOfReuse(t *testing.T) {
	there, here := newStore(t), newStore(t)
	base, top := imagetest.Layer{Tar: tarOf(1, 3, 9000)}, imagetest.Layer{Tar: tarOf(2, 3, 9000)}
	other, _ := mustConvert(t, there, imagetest.Put(t, there, imagetest.Image{Layers: []imagetest.Layer{base}}), convert.Options{Record: recordOf("d1/f1")})
	known, err := convert.ReadReuse(t.Context(), there, other)
	if err != nil {
		t.Fatal(err)
	}
	src := imagetest.Put(t, here, imagetest.Image{Layers: []imagetest.Layer{base, top}})
	var r reports
	out, m := mustConvert(t, newStore(t, known, here), src, convert.Options{Existing: known.Find, Progress: &r})
	if r.reused != 1 {
		t.Errorf("%d layers reused, want 1", r.reused)
	}
	saysAbove(t, m)
	if want, _ := mustConvert(t, here, src, convert.Options{}); out.Digest != want.Digest {
		t.Errorf("with a layer used again the image is %s, want %s", out.Digest, want.Digest)
	}
	// Alone, a layer does not know its image.
	blob := imagetest.Read[ocispec.Manifest](t, here, src).Layers[0]
	cs := newStore(t, known)
	blob = imagetest.Blob(t, cs, blob.MediaType, imagetest.Compress(t, blob.MediaType, base.Tar))
	labelled := content.Info{Digest: blob.Digest, Labels: map[string]string{labels.LabelUncompressed: digest.FromBytes(base.Tar).String()}}
	if _, err := cs.Update(t.Context(), labelled, "labels"); err != nil {
		t.Fatal(err)
	}
	l, err := convert.Layer(t.Context(), cs, blob, convert.Options{Existing: known.Find, Progress: &r})
	if err != nil || r.reused != 2 || l.Annotations[keyAbove] != "" {
		t.Errorf("alone, the layer is %+v, %v, after %d reused", l, err, r.reused)
	}
	// Here the layer that is used again is one that cannot get an index layer above it.
	foreign := imagetest.Layer{Tar: tarOf(2, 3, 9000), MediaType: images.MediaTypeDockerSchema2LayerForeignGzip}
	src = imagetest.Put(t, here, imagetest.Image{Layers: []imagetest.Layer{base, foreign}})
	_, m = mustConvert(t, newStore(t, known, here), src, convert.Options{Existing: known.Find})
	if got, ok := m.Layers[0].Annotations[keyAbove]; ok {
		t.Errorf("without an index layer the layer that is used again says %q", got)
	}
}
