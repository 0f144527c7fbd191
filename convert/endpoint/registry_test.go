package endpoint_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/convert/endpoint"
	"github.com/faasnet/faasnet/convert/imagetest"
	"github.com/faasnet/faasnet/fs/registry"
	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

func newPlaces(t *testing.T) *endpoint.Places {
	t.Helper()
	c, err := registry.New(registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &endpoint.Places{Resolver: c.Resolver(), Blobs: c.Blobs, Work: t.TempDir()}
}

// Connections that break while a layer is read do not matter as long as they
// get on.
func TestStreamThatBreaks(t *testing.T) {
	cs := newStore(t)
	noise := make([]byte, 1<<20)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	src := imagetest.Put(t, cs, imagetest.Image{Layers: []imagetest.Layer{{Tar: tarOf("noise", string(noise)), MediaType: ocispec.MediaTypeImageLayer}}})
	reg := registrytest.New(t, registrytest.Options{})
	p := newPlaces(t)
	n := endpoint.Name{Ref: reg.Host() + "/app:1"}
	if err := p.Put(t.Context(), n, src, cs); err != nil {
		t.Fatal(err)
	}
	l := imagetest.Read[ocispec.Manifest](t, cs, src).Layers[0]
	want, err := content.ReadBlob(t.Context(), cs, l)
	if err != nil {
		t.Fatal(err)
	}
	isLayer := func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, l.Digest.String()) }
	read := func(t *testing.T) ([]byte, error) {
		t.Helper()
		img, err := p.Open(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		ra, err := img.ReaderAt(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		defer ra.Close()
		return io.ReadAll(io.NewSectionReader(ra, 0, l.Size))
	}
	for name, f := range map[string]registrytest.Fault{
		"cut":          {Truncate: 100_000},
		"cut, chunked": {Truncate: 100_000, Chunked: true},
	} {
		t.Run(name, func(t *testing.T) {
			defer reg.Every(isLayer, f)()
			if got, err := read(t); err != nil || !bytes.Equal(got, want) {
				t.Errorf("read %d bytes of %d, %v", len(got), len(want), err)
			}
		})
	}
	t.Run("closed and unavailable for a while", func(t *testing.T) {
		defer reg.Next(isLayer, registrytest.Fault{Close: true}, registrytest.Fault{Truncate: 1000}, registrytest.Fault{Status: 503}, registrytest.Fault{Reset: true})()
		if got, err := read(t); err != nil || !bytes.Equal(got, want) {
			t.Errorf("read %d bytes of %d, %v", len(got), len(want), err)
		}
	})
	t.Run("gone", func(t *testing.T) {
		defer reg.Every(isLayer, registrytest.Fault{Status: 404})()
		reg.Forget()
		if _, err := read(t); err == nil || !strings.Contains(err.Error(), l.Digest.String()) {
			t.Errorf("error is %v, want one that names the blob", err)
		}
		if n := reg.Count(registrytest.Blobs); n > 2 {
			t.Errorf("asked %d times for what is not there", n)
		}
	})
}

// Nothing names a blob before it is there.
func TestPushOrder(t *testing.T) {
	cs := newStore(t)
	inner := imagetest.Index(t, cs, ocispec.MediaTypeImageIndex, image(t, cs, "one"), image(t, cs, "two"))
	target := imagetest.Index(t, cs, ocispec.MediaTypeImageIndex, inner, image(t, cs, "three"))
	reg := registrytest.New(t, registrytest.Options{})
	p := newPlaces(t)
	if err := p.Put(t.Context(), endpoint.Name{Ref: reg.Host() + "/app:1"}, target, cs); err != nil {
		t.Fatal(err)
	}
	var manifests []string
	for _, r := range reg.Requests() {
		if r.Method != http.MethodPut {
			continue
		}
		if strings.Contains(r.Path, "/manifests/") {
			manifests = append(manifests, r.Path)
		} else if len(manifests) > 0 {
			t.Errorf("blob after manifest: %s", r.Path)
		}
	}
	if n := len(manifests); n != 5 || !strings.HasSuffix(manifests[3], inner.Digest.String()) || !strings.HasSuffix(manifests[4], "/manifests/1") {
		t.Errorf("manifests were written in the order %q", manifests)
	}
	img, err := p.Open(t.Context(), endpoint.Name{Ref: reg.Host() + "/app:1"})
	if err != nil {
		t.Fatal(err)
	}
	same(t, cs, img, target)
}
