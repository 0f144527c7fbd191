package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

func descriptor(mediaType string, p []byte) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(p), Size: int64(len(p))}
}

func push(ctx context.Context, t *testing.T, p remotes.Pusher, d ocispec.Descriptor, b []byte) {
	t.Helper()
	w, err := p.Push(ctx, d)
	if errdefs.IsAlreadyExists(err) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := content.Copy(ctx, w, bytes.NewReader(b), d.Size, d.Digest); err != nil {
		t.Fatal(err)
	}
}

// pushImage pushes an image of one layer and returns its manifest.
func pushImage(ctx context.Context, t *testing.T, r remotes.Resolver, ref string, layer []byte) ocispec.Descriptor {
	t.Helper()
	p, err := r.Pusher(ctx, ref)
	if err != nil {
		t.Fatal(err)
	}
	config := []byte(`{}`)
	m := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: descriptor(ocispec.MediaTypeImageConfig, config),
		Layers: []ocispec.Descriptor{descriptor(ocispec.MediaTypeImageLayerZstd, layer)},
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	d := descriptor(ocispec.MediaTypeImageManifest, b)
	push(ctx, t, p, m.Layers[0], layer)
	push(ctx, t, p, m.Config, config)
	push(ctx, t, p, d, b)
	return d
}

func fetch(ctx context.Context, t *testing.T, r remotes.Resolver, ref string, d ocispec.Descriptor) []byte {
	t.Helper()
	f, err := r.Fetcher(ctx, ref)
	if err != nil {
		t.Fatal(err)
	}
	rc, err := f.Fetch(ctx, d)
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	b, err := io.ReadAll(rc)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPushAndPull(t *testing.T) {
	users := map[string]string{"u": "p"}
	for name, o := range map[string]registrytest.Options{
		"open":      {},
		"directory": {Dir: t.TempDir()},
		"token":     {Auth: &registrytest.Auth{Users: users}},
		"basic":     {Auth: &registrytest.Auth{Users: users, Basic: true}},
		"redirect":  {Redirect: &registrytest.Redirect{}},
		"TLS":       {TLS: registrytest.Secure},
	} {
		t.Run(name, func(t *testing.T) {
			reg := registrytest.New(t, o)
			c := newClient(t, Options{Credentials: func(context.Context, string, string) (Credential, error) {
				return Credential{Username: "u", Password: "p"}, nil
			}})
			layer := bytes.Repeat([]byte("layer "), 100_000)
			ref := reg.Host() + "/a/b:1"
			want := pushImage(t.Context(), t, c.Resolver(), ref, layer)
			_, got, err := c.Resolver().Resolve(t.Context(), ref)
			if err != nil || got.Digest != want.Digest {
				t.Fatalf("resolved %v, %v, want %v", got.Digest, err, want.Digest)
			}
			if b := fetch(t.Context(), t, c.Resolver(), ref, descriptor(ocispec.MediaTypeImageLayerZstd, layer)); !bytes.Equal(b, layer) {
				t.Error("layer came back different")
			}
			// The same layer into another repository is mounted, not sent.
			sent := reg.Count(registrytest.Uploads)
			p, err := c.Resolver().Pusher(t.Context(), reg.Host()+"/c/d:1")
			if err != nil {
				t.Fatal(err)
			}
			d := descriptor(ocispec.MediaTypeImageLayerZstd, layer)
			d.Annotations = map[string]string{"containerd.io/distribution.source.127.0.0.1": "a/b"}
			if _, err := p.Push(t.Context(), d); !errdefs.IsAlreadyExists(err) {
				t.Errorf("mount: %v", err)
			}
			if n := reg.Count(registrytest.Uploads) - sent; n > 2 {
				t.Errorf("%d upload requests for a mount", n)
			}
		})
	}
}
