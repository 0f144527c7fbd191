package convert_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/convert"
	"github.com/faasnet/faasnet/convert/imagetest"
)

// mediaTypes collects the media types of an image, and fails for a blob that is
// not there.
func mediaTypes(t *testing.T, cs content.Store, d ocispec.Descriptor) []string {
	t.Helper()
	var out []string
	h := images.Handlers(images.ChildrenHandler(cs), images.HandlerFunc(func(_ context.Context, d ocispec.Descriptor) ([]ocispec.Descriptor, error) {
		out = append(out, d.MediaType)
		if info, err := cs.Info(t.Context(), d.Digest); err != nil || info.Size != d.Size {
			t.Errorf("%s %s: %v, %d bytes, want %d", d.MediaType, d.Digest, err, info.Size, d.Size)
		}
		if images.IsManifestType(d.MediaType) || images.IsIndexType(d.MediaType) {
			var v struct{ MediaType string }
			if v = imagetest.Read[struct{ MediaType string }](t, cs, d); v.MediaType != d.MediaType {
				t.Errorf("%s says of itself that it is %s, its descriptor that it is %s", d.Digest, v.MediaType, d.MediaType)
			}
		}
		return nil, nil
	}))
	if err := images.Walk(t.Context(), h, d); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCF13_Attestations(t *testing.T) {
	cs := newStore(t)
	amd64 := imagetest.Put(t, cs, imagetest.Image{Layers: []imagetest.Layer{{Tar: tarOf(13, 3, 100)}}})
	statement := imagetest.Blob(t, cs, images.MediaTypeInToto, []byte(`{"_type":"https://in-toto.io/Statement/v0.1"}`))
	manifest := ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Layers: []ocispec.Descriptor{statement}}
	manifest.SchemaVersion = 2
	manifest.Config = imagetest.Blob(t, cs, ocispec.MediaTypeImageConfig, []byte(`{"architecture":"unknown","os":"unknown","config":{},"rootfs":{"type":"layers","diff_ids":[]}}`))
	attestation := imagetest.JSON(t, cs, ocispec.MediaTypeImageManifest, manifest)
	attestation.Platform = &ocispec.Platform{OS: "unknown", Architecture: "unknown"}
	attestation.Annotations = map[string]string{"vnd.docker.reference.type": "attestation-manifest", "vnd.docker.reference.digest": amd64.Digest.String()}
	src := imagetest.Index(t, cs, ocispec.MediaTypeImageIndex, amd64, attestation)

	for name, platform := range map[string]platforms.MatchComparer{"all platforms": platforms.All, "one platform": platforms.OnlyStrict(*amd64.Platform)} {
		t.Run(name, func(t *testing.T) {
			out, err := convert.Image(t.Context(), cs, src, convert.Options{Platform: platform})
			if err != nil {
				t.Fatal(err)
			}
			idx := imagetest.Read[ocispec.Index](t, cs, *out)
			if len(idx.Manifests) != 2 {
				t.Fatalf("index has %d manifests, want 2", len(idx.Manifests))
			}
			if n := len(imagetest.Read[ocispec.Manifest](t, cs, idx.Manifests[0]).Layers); n != 2 {
				t.Errorf("converted manifest has %d layers, want 2", n)
			}
			if got := idx.Manifests[1]; got.Digest != attestation.Digest || got.Size != attestation.Size {
				t.Errorf("attestation is %v, want it as it was: %v", got, attestation)
			}
			if got := idx.Manifests[1].Annotations["vnd.docker.reference.digest"]; got != idx.Manifests[0].Digest.String() {
				t.Errorf("attestation is about %s, want the converted manifest %s", got, idx.Manifests[0].Digest)
			}
			mediaTypes(t, cs, *out)
		})
	}
	t.Run("without its subject", func(t *testing.T) {
		arm64 := imagetest.Put(t, cs, imagetest.Image{Platform: platforms.MustParse("linux/arm64"), Layers: []imagetest.Layer{{Tar: tarOf(13, 3, 100)}}})
		src := imagetest.Index(t, cs, ocispec.MediaTypeImageIndex, amd64, attestation, arm64)
		out, err := convert.Image(t.Context(), cs, src, convert.Options{Platform: platforms.OnlyStrict(*arm64.Platform)})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(imagetest.Read[ocispec.Index](t, cs, *out).Manifests); n != 1 {
			t.Errorf("index has %d manifests, want arm64 only", n)
		}
	})
}

// nested is the index of CF-14: an index of amd64 and arm64/v8 beside s390x.
func nested(t *testing.T, cs content.Store) ocispec.Descriptor {
	t.Helper()
	put := func(platform string, seed uint64) ocispec.Descriptor {
		p := platforms.MustParse(platform)
		if p.Architecture == "arm64" {
			p.Variant, p.OSVersion = "v8", "1.2.3"
		}
		d := imagetest.Put(t, cs, imagetest.Image{Platform: p, Layers: []imagetest.Layer{{Tar: tarOf(seed, 5, 20_000)}, {Tar: tarOf(99, 5, 20_000)}}})
		return d
	}
	inner := imagetest.Index(t, cs, ocispec.MediaTypeImageIndex, put("linux/amd64", 1), put("linux/arm64/v8", 2))
	return imagetest.Index(t, cs, ocispec.MediaTypeImageIndex, inner, put("linux/s390x", 3))
}

func TestCF14_NestedIndexes(t *testing.T) {
	t.Run("all platforms", func(t *testing.T) {
		cs := newStore(t)
		out, err := convert.Image(t.Context(), cs, nested(t, cs), convert.Options{})
		if err != nil {
			t.Fatal(err)
		}
		outer := imagetest.Read[ocispec.Index](t, cs, *out)
		inner := imagetest.Read[ocispec.Index](t, cs, outer.Manifests[0])
		var got []string
		for _, m := range append(inner.Manifests, outer.Manifests[1]) {
			got = append(got, fmt.Sprintf("%s %s %s", platforms.Format(*m.Platform), m.Platform.OSVersion, fmt.Sprint(len(imagetest.Read[ocispec.Manifest](t, cs, m).Layers))))
		}
		if want := "linux/amd64  3, linux/arm64/v8 1.2.3 3, linux/s390x  3"; strings.Join(got, ", ") != want {
			t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
		}
		mediaTypes(t, cs, *out)
	})
	t.Run("one platform", func(t *testing.T) {
		cs := newStore(t)
		src := nested(t, cs)
		var read []digest.Digest
		out, err := convert.Image(t.Context(), spy{cs, new(sync.Mutex), &read}, src, convert.Options{Platform: platforms.OnlyStrict(platforms.MustParse("linux/arm64"))})
		if err != nil {
			t.Fatal(err)
		}
		outer := imagetest.Read[ocispec.Index](t, cs, *out)
		if len(outer.Manifests) != 1 || len(imagetest.Read[ocispec.Index](t, cs, outer.Manifests[0]).Manifests) != 1 {
			t.Errorf("index is %+v, want arm64 only", outer)
		}
		if len(read) != 2 {
			t.Errorf("layers read: %v, want the 2 of arm64", read)
		}
	})
	t.Run("missing platform", func(t *testing.T) {
		cs := newStore(t)
		_, err := convert.Image(t.Context(), cs, nested(t, cs), convert.Options{Platform: platforms.OnlyStrict(platforms.MustParse("linux/riscv64"))})
		if !errdefs.IsNotFound(err) || !strings.Contains(err.Error(), "linux/s390x") {
			t.Errorf("error is %v, want one that names the platforms there are", err)
		}
	})
}

func TestCF15_MediaTypes(t *testing.T) {
	tars := []imagetest.Layer{{Tar: tarOf(15, 3, 1000)}, {Tar: tarOf(16, 3, 1000)}}
	var first *ocispec.Descriptor
	for name, docker := range map[string]bool{"OCI": false, "Docker schema 2": true} {
		t.Run(name, func(t *testing.T) {
			cs := newStore(t)
			m := imagetest.Put(t, cs, imagetest.Image{Docker: docker, Layers: tars})
			indexType := ocispec.MediaTypeImageIndex
			if docker {
				indexType = images.MediaTypeDockerSchema2ManifestList
			}
			out, err := convert.Image(t.Context(), cs, imagetest.Index(t, cs, indexType, m), convert.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, mt := range mediaTypes(t, cs, *out) {
				if !strings.HasPrefix(mt, "application/vnd.oci.image.") {
					t.Errorf("media type %s is not OCI's", mt)
				}
			}
			if first != nil && out.Digest != first.Digest {
				t.Errorf("converted image is %s, from the other family it was %s", out.Digest, first.Digest)
			}
			first = out
			again, err := convert.Image(t.Context(), cs, *out, convert.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if again.Digest != out.Digest {
				t.Errorf("second conversion gives %s, first gave %s", again.Digest, out.Digest)
			}
		})
	}
}

func TestCF21_SameBytes(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var want digest.Digest
	src := newStore(t)
	image := nested(t, src)
	for i := range 20 {
		runtime.GOMAXPROCS(1 + i%2)
		out, err := convert.Image(t.Context(), newStore(t, src), image, convert.Options{Workers: 1 + i%3, BlockSize: 16 << 10})
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			want = out.Digest
		}
		if out.Digest != want {
			t.Fatalf("conversion %d gives %s, the first gave %s", i, out.Digest, want)
		}
	}
}

// spy remembers the layers that are read.
type spy struct {
	content.Store
	mu   *sync.Mutex // guards read
	read *[]digest.Digest
}

func (s spy) ReaderAt(ctx context.Context, d ocispec.Descriptor) (content.ReaderAt, error) {
	if d.MediaType == ocispec.MediaTypeImageLayerGzip {
		s.mu.Lock()
		*s.read = append(*s.read, d.Digest)
		s.mu.Unlock()
	}
	return s.Store.ReaderAt(ctx, d)
}
