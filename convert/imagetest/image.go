// Package imagetest makes container images in content stores for tests.
package imagetest

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Created is the date of every image, so that images are the same each time.
var Created = time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)

// Layer is one layer of an image.
type Layer struct {
	Tar         []byte // the tar stream
	MediaType   string // the default is OCI gzip; it says how the blob is compressed
	Blob        []byte // instead of Tar compressed
	Annotations map[string]string
}

// Image describes an image.
type Image struct {
	Platform ocispec.Platform // the default is linux/amd64
	Layers   []Layer
	Docker   bool // Docker schema 2 instead of OCI
}

// Compress compresses a tar stream as mediaType says, always to the same bytes.
func Compress(t testing.TB, mediaType string, tar []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	switch {
	case strings.HasSuffix(mediaType, "gzip"):
		w := gzip.NewWriter(&b)
		must(t, second(w.Write(tar)))
		must(t, w.Close())
	case strings.HasSuffix(mediaType, "zstd"):
		// Several frames, as pzstd writes.
		e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		must(t, err)
		for len(tar) > 0 {
			n := min(len(tar), 100_000)
			b.Write(e.EncodeAll(tar[:n], nil))
			tar = tar[n:]
		}
	default:
		b.Write(tar)
	}
	return b.Bytes()
}

// Put writes an image into cs and returns its manifest's descriptor, with its
// platform.
func Put(t testing.TB, cs content.Store, m Image) ocispec.Descriptor {
	t.Helper()
	if m.Platform.OS == "" {
		m.Platform = ocispec.Platform{OS: "linux", Architecture: "amd64"}
	}
	manifestType, configType, layerType := ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageConfig, ocispec.MediaTypeImageLayerGzip
	if m.Docker {
		manifestType, configType, layerType = images.MediaTypeDockerSchema2Manifest, images.MediaTypeDockerSchema2Config, images.MediaTypeDockerSchema2LayerGzip
	}
	config := ocispec.Image{Platform: m.Platform, Created: &Created, RootFS: ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{}}}
	manifest := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: manifestType, Layers: []ocispec.Descriptor{}}
	for _, l := range m.Layers {
		if l.MediaType == "" {
			l.MediaType = layerType
		}
		if l.Blob == nil {
			l.Blob = Compress(t, l.MediaType, l.Tar)
		}
		d := Blob(t, cs, l.MediaType, l.Blob)
		d.Annotations = l.Annotations
		manifest.Layers = append(manifest.Layers, d)
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, digest.FromBytes(l.Tar))
		config.History = append(config.History, ocispec.History{Created: &Created, CreatedBy: "test"})
	}
	manifest.Config = JSON(t, cs, configType, config)
	d := JSON(t, cs, manifestType, manifest)
	d.Platform = &m.Platform
	return d
}

// Index writes an index of manifests.
func Index(t testing.TB, cs content.Store, mediaType string, manifests ...ocispec.Descriptor) ocispec.Descriptor {
	t.Helper()
	return JSON(t, cs, mediaType, ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: mediaType, Manifests: manifests})
}

// JSON writes v as a blob.
func JSON(t testing.TB, cs content.Store, mediaType string, v any) ocispec.Descriptor {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	return Blob(t, cs, mediaType, b)
}

// Blob writes a blob.
func Blob(t testing.TB, cs content.Store, mediaType string, b []byte) ocispec.Descriptor {
	t.Helper()
	d := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(b), Size: int64(len(b))}
	must(t, content.WriteBlob(context.Background(), cs, "imagetest-"+d.Digest.String(), bytes.NewReader(b), d))
	return d
}

// Read reads a JSON blob.
func Read[T any](t testing.TB, cs content.Provider, d ocispec.Descriptor) T {
	t.Helper()
	var v T
	b, err := content.ReadBlob(context.Background(), cs, d)
	must(t, err)
	must(t, json.Unmarshal(b, &v))
	return v
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func second(_ int, err error) error { return err }
