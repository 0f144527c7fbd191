package main

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/fs/index/indextest"
)

func sorted[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// walk gives each blob of an image to f.
func walk(t *testing.T, cs content.Provider, d ocispec.Descriptor, f func(d ocispec.Descriptor, b []byte, isManifest bool)) {
	t.Helper()
	h := images.Handlers(images.ChildrenHandler(cs), images.HandlerFunc(func(ctx context.Context, d ocispec.Descriptor) ([]ocispec.Descriptor, error) {
		b, err := content.ReadBlob(ctx, cs, d)
		if err != nil {
			return nil, err
		}
		f(d, b, images.IsManifestType(d.MediaType) || images.IsIndexType(d.MediaType))
		return nil, nil
	}))
	if err := images.Walk(t.Context(), h, d); err != nil {
		t.Fatal(err)
	}
}

// linkFirst is a tar stream with a hard link before its target.
func linkFirst() []byte {
	var tar indextest.Tar
	tar.Add(indextest.Header{Name: "b/c/h2", Type: '1', Link: "a/t"}, indextest.Header{Name: "a/t", Body: "T"})
	return tar.Bytes()
}

// matcher makes a match for registrytest that knows whether of accepts.
func matcher(f func(method, path string, is bool) bool, of func(*http.Request) bool) func(*http.Request) bool {
	return func(r *http.Request) bool { return f(r.Method, r.URL.Path, of(r)) }
}
