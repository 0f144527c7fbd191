package e2e

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/rootfs"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/script/lab"
)

// A lazily pulled image has no layers in containerd: export and push say so, and
// work after the command that docs/operations.md names. Then what a container
// wrote is committed as a layer: only what it wrote is in it, and the image runs
// where only overlayfs is.
func TestKC04_FU01_FU10_ExportPushAndCommit(t *testing.T) {
	v := newVM(t, lab.Current, "", lab.DaemonConfig{})
	img := v.made("shapes", shapes()...)
	v.check(v.Pull(t.Context(), "faasnet", img.lazy))
	file := filepath.Join(t.TempDir(), "image.tar")
	if _, err := v.Ctr(t.Context(), "image", "export", file, img.lazy); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("export of a lazily pulled image: %v", err)
	}
	must(v.Ctr(t.Context(), "content", "fetch", "--hosts-dir", v.hosts, img.lazy))(t)
	must(v.Ctr(t.Context(), "image", "export", file, img.lazy))(t)

	link := must(v.hub.Link(""))(t)
	second := must(v.Host(v.host.Name()+"registry", link))(t)
	defer func() { v.check(errors.Join(second.Close(), link.Close())) }()
	registry := must(second.Registry(t.Context(), ""))(t)
	must(registry.HostsDir())(t) // in the directory that everybody uses
	pushed := registry.Addr + "/pushed:1"
	must(v.Ctr(t.Context(), "image", "push", "--hosts-dir", v.hosts, pushed, img.lazy))(t)
	v.check(v.Pull(t.Context(), "overlayfs", pushed))
	v.check(v.RunReady(t.Context(), "overlayfs", pushed))

	v.commit(img.lazy, "committed:1")
	if out := must(v.Exec(t.Context(), "overlayfs", "committed:1", "/bin/sh", "-c", "cat /d/sub/written; ls -A /d/sub"))(t); out != "written\nnew\nwritten\n" {
		t.Errorf("the committed image says %q", out)
	}
}

// commit writes a file to a container's root file system, in a directory that a
// layer replaced, and makes an image of it, unpacked for overlayfs.
func (v *vm) commit(ref, name string) {
	v.Helper()
	client := must(containerd.New(v.Address()))(v)
	defer client.Close()
	ctx, done, err := client.WithLease(namespaces.WithNamespace(v.Context(), "default"))
	v.check(err)
	defer func() { v.check(done(ctx)) }()
	image := must(client.GetImage(ctx, ref))(v)
	cs, sn := client.ContentStore(), client.SnapshotService("faasnet")
	diffIDs := must(image.RootFS(ctx))(v)
	mounts := must(sn.Prepare(ctx, "commit", identity.ChainID(diffIDs).String()))(v)
	root := v.TempDir()
	v.check(mount.All(mounts, root))
	names := must(os.ReadDir(filepath.Join(root, "d/sub")))(v)
	writeErr := os.WriteFile(filepath.Join(root, "d/sub/written"), []byte("written\n"), 0o644)
	v.check(errors.Join(mount.UnmountAll(root, 0), writeErr))
	if len(names) != 1 || names[0].Name() != "new" {
		v.Errorf("d/sub holds %v", names)
	}
	v.upperIsPlain(mounts)
	layer := must(rootfs.CreateDiff(ctx, "commit", sn, client.DiffService()))(v)
	if got := tarNames(ctx, v, cs, layer); !slices.Equal(got, []string{"d/", "d/sub/", "d/sub/written"}) {
		v.Errorf("the committed layer holds %q", got)
	}

	manifest := must(images.Manifest(ctx, cs, image.Target(), image.Platform()))(v)
	var config ocispec.Image
	v.check(json.Unmarshal(must(content.ReadBlob(ctx, cs, manifest.Config))(v), &config))
	config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, must(images.GetDiffID(ctx, cs, layer))(v))
	config.History = append(config.History, ocispec.History{CreatedBy: "commit"})
	children := append(slices.Clone(manifest.Layers), layer)
	written := v.store(ctx, cs, ocispec.MediaTypeImageConfig, config)
	target := v.store(ctx, cs, ocispec.MediaTypeImageManifest, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: written, Layers: children,
	}, append(children, written)...)
	made := must(client.ImageService().Create(ctx, images.Image{Name: name, Target: target}))(v)
	v.check(containerd.NewImageWithPlatform(client, made, image.Platform()).Unpack(ctx, "overlayfs"))
	v.check(sn.Remove(ctx, "commit"))
}

// upperIsPlain checks that what was copied up has no mark that hides what is
// below it, of either kind.
func (v *vm) upperIsPlain(mounts []mount.Mount) {
	v.Helper()
	for _, o := range mounts[0].Options {
		upper, ok := strings.CutPrefix(o, "upperdir=")
		if !ok {
			continue
		}
		for _, dir := range []string{"d", "d/sub"} {
			list := make([]byte, 4096)
			n, err := unix.Llistxattr(filepath.Join(upper, dir), list)
			v.check(err)
			for name := range strings.SplitSeq(string(list[:n]), "\x00") {
				if strings.HasPrefix(name, "user.overlay.") || name == "trusted.overlay.opaque" {
					v.Errorf("%s copied up has the attribute %s", dir, name)
				}
			}
		}
		return
	}
	v.Errorf("no upper directory in %v", mounts)
}

// store writes a JSON blob that keeps others alive.
func (v *vm) store(ctx context.Context, cs content.Store, mediaType string, value any, keeps ...ocispec.Descriptor) ocispec.Descriptor {
	v.Helper()
	p := must(json.Marshal(value))(v)
	desc := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(p), Size: int64(len(p))}
	refs := map[string]string{}
	for _, k := range keeps {
		refs["containerd.io/gc.ref.content."+k.Digest.Encoded()] = k.Digest.String()
	}
	v.check(content.WriteBlob(ctx, cs, desc.Digest.String(), strings.NewReader(string(p)), desc, content.WithLabels(refs)))
	return desc
}

// tarNames lists the entries of a gzip layer.
func tarNames(ctx context.Context, t testing.TB, cs content.Store, layer ocispec.Descriptor) (names []string) {
	t.Helper()
	r := must(cs.ReaderAt(ctx, layer))(t)
	defer r.Close()
	zr := must(gzip.NewReader(content.NewReader(r)))(t)
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
}
