package snapshotter

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/diff/apply"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/core/unpack"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/semaphore"

	"github.com/faasnet/faasnet/fs/index/indextest"
)

// TestKC03_RealUnpacker runs containerd's own unpacker, which takes labels from the manifest's annotations, over lazy and plain layers. It
// unpacks serially as long as the snapshotter has no capability "rebase", also where a limiter for parallel unpacking is set.
func TestKC03_RealUnpacker(t *testing.T) {
	img := build(t, threeLayers()...)
	for _, k := range kinds {
		t.Run("KC-03 "+k.name, func(t *testing.T) {
			w := newWorld(t)
			img := w.lazily(img, k.lazy)
			ctx := in("default")
			cs := w.db.ContentStore()
			manifest := store(ctx, t, cs, img)
			u, err := unpack.NewUnpacker(ctx, cs, unpack.WithUnpackLimiter(semaphore.NewWeighted(2)), unpack.WithUnpackPlatform(unpack.Platform{
				Snapshotter: w.sn, SnapshotterKey: "faasnet", Applier: apply.NewFileSystemApplier(cs),
			}))
			w.must(err)
			w.must(images.Dispatch(ctx, u.Unpack(images.ChildrenHandler(cs)), nil, manifest))
			result, err := u.Wait()
			w.must(err)
			if result.Unpacks != 1 {
				t.Errorf("%d images unpacked", result.Unpacks)
			}
			mounts, err := w.sn.Prepare(ctx, "run", img.top())
			w.must(err)
			indextest.Compare(t, reference(t, img), mountAt(t, mounts), unstable)
			remote := 0
			w.must(w.s.Walk(ctx, func(_ context.Context, info snapshots.Info) error {
				if isRemote(info) {
					remote++
				}
				return nil
			}))
			want := 0
			for _, l := range img {
				if l.lazy {
					want++
				}
			}
			if remote != want {
				t.Errorf("%d remote layers, want %d", remote, want)
			}
		})
	}
}

// store writes img as an OCI image and returns its manifest.
func store(ctx context.Context, t *testing.T, cs content.Store, img image) ocispec.Descriptor {
	t.Helper()
	write := func(mediaType string, p []byte) ocispec.Descriptor {
		desc := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(p), Size: int64(len(p))}
		if err := content.WriteBlob(ctx, cs, desc.Digest.String(), bytes.NewReader(p), desc); err != nil {
			t.Fatal(err)
		}
		return desc
	}
	object := func(mediaType string, v any) ocispec.Descriptor {
		p, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return write(mediaType, p)
	}
	config := ocispec.Image{Platform: ocispec.Platform{OS: "linux", Architecture: "amd64"}, RootFS: ocispec.RootFS{Type: "layers"}}
	m := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest}
	for _, l := range img {
		desc := write(ocispec.MediaTypeImageLayer, l.tar)
		desc.Annotations = l.labels()
		m.Layers = append(m.Layers, desc)
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, l.diffID())
	}
	m.Config = object(ocispec.MediaTypeImageConfig, config)
	return object(m.MediaType, m)
}
