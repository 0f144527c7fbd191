package endpoint_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/convert/endpoint"
	"github.com/faasnet/faasnet/convert/imagetest"
	"github.com/faasnet/faasnet/fs/index/indextest"
)

func tarOf(name, body string) []byte {
	var t indextest.Tar
	return t.Add(indextest.Header{Name: name, Body: body}).Bytes()
}

func image(t *testing.T, cs content.Store, name string) ocispec.Descriptor {
	t.Helper()
	return imagetest.Put(t, cs, imagetest.Image{Layers: []imagetest.Layer{{Tar: tarOf(name, "x")}, {Tar: tarOf("shared", "y")}}})
}

// same fails unless all blobs of an image can be read at both places.
func same(t *testing.T, a, b content.Provider, d ocispec.Descriptor) {
	t.Helper()
	h := images.Handlers(images.ChildrenHandler(a), images.HandlerFunc(func(ctx context.Context, d ocispec.Descriptor) ([]ocispec.Descriptor, error) {
		x, err := content.ReadBlob(ctx, a, d)
		if err != nil {
			return nil, err
		}
		y, err := content.ReadBlob(ctx, b, d)
		if err == nil && !bytes.Equal(x, y) {
			t.Errorf("%s differs", d.Digest)
		}
		return nil, err
	}))
	if err := images.Walk(t.Context(), h, d); err != nil {
		t.Error(err)
	}
}

func TestPutAndOpen(t *testing.T) {
	cs := newStore(t)
	one := image(t, cs, "one")
	two := imagetest.Index(t, cs, ocispec.MediaTypeImageIndex, image(t, cs, "two"),
		imagetest.Put(t, cs, imagetest.Image{Platform: platforms.MustParse("linux/s390x"), Layers: []imagetest.Layer{{Tar: tarOf("three", "")}}}))
	for _, kind := range []endpoint.Kind{endpoint.Layout, endpoint.Archive} {
		for _, target := range []ocispec.Descriptor{one, two} {
			p := &endpoint.Places{Work: t.TempDir()}
			n := endpoint.Name{Kind: kind, Path: filepath.Join(t.TempDir(), "a", "place"), Ref: "v1"}
			if kind == endpoint.Archive {
				n.Path = filepath.Join(t.TempDir(), "place")
			}
			t.Run(n.String(), func(t *testing.T) {
				if err := p.Put(t.Context(), n, target, cs); err != nil {
					t.Fatal(err)
				}
				for _, ref := range []string{"", "v1", target.Digest.String()} {
					n.Ref = ref
					img, err := p.Open(t.Context(), n)
					if err != nil {
						t.Fatal(err)
					}
					if img.Target.Digest != target.Digest || img.Target.MediaType != target.MediaType {
						t.Errorf("opened %v, want %v", img.Target, target)
					}
					same(t, cs, img, target)
				}
				n.Ref = "v2"
				if _, err := p.Open(t.Context(), n); !errdefs.IsNotFound(err) {
					t.Errorf("another tag: %v", err)
				}
			})
		}
	}
}

func TestLayoutWithSeveralImages(t *testing.T) {
	cs := newStore(t)
	one, two := image(t, cs, "one"), image(t, cs, "two")
	p := &endpoint.Places{}
	n := endpoint.Name{Kind: endpoint.Layout, Path: filepath.Join(t.TempDir(), "l"), Ref: "v1"}
	put := func(ref string, d ocispec.Descriptor) {
		t.Helper()
		n.Ref = ref
		if err := p.Put(t.Context(), n, d, cs); err != nil {
			t.Fatal(err)
		}
	}
	put("v1", one)
	put("v2", two)
	n.Ref = ""
	if _, err := p.Open(t.Context(), n); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "v1, v2") {
		t.Errorf("without a name: %v", err)
	}
	put("v1", two) // the tag moves
	n.Ref = "v1"
	img, err := p.Open(t.Context(), n)
	if err != nil || img.Target.Digest != two.Digest {
		t.Errorf("v1 is %v, %v, want %v", img, err, two.Digest)
	}
}

// Conversions that end at the same time in one directory all find their names
// there, and the blobs that one which fails had made as well.
func TestLayoutWithSeveralWriters(t *testing.T) {
	cs := newStore(t)
	dir := filepath.Join(t.TempDir(), "l")
	var wg sync.WaitGroup
	var made []ocispec.Descriptor
	for i := range 12 {
		made = append(made, image(t, cs, fmt.Sprint("image", i)))
	}
	for i, d := range made {
		wg.Go(func() {
			n := endpoint.Name{Kind: endpoint.Layout, Path: dir, Ref: fmt.Sprint("v", i)}
			from := cs
			if i%3 == 0 {
				from = failing{cs, d.Digest}
			}
			if err := new(endpoint.Places).Put(t.Context(), n, d, from); (err == nil) != (i%3 != 0) {
				t.Errorf("%v: %v", n, err)
			}
		})
	}
	wg.Wait()
	for i, d := range made {
		if i%3 == 0 {
			continue
		}
		img, err := new(endpoint.Places).Open(t.Context(), endpoint.Name{Kind: endpoint.Layout, Path: dir, Ref: fmt.Sprint("v", i)})
		if err != nil {
			t.Error(err)
			continue
		}
		same(t, cs, img, d)
	}
}

// A provider that fails for one blob.
type failing struct {
	content.Store
	bad digest.Digest
}

var errBad = errors.New("bad blob")

func (f failing) ReaderAt(ctx context.Context, d ocispec.Descriptor) (content.ReaderAt, error) {
	if d.Digest == f.bad {
		return nil, errBad
	}
	return f.Store.ReaderAt(ctx, d)
}

func TestPutFails(t *testing.T) {
	cs := newStore(t)
	one, two := image(t, cs, "one"), image(t, cs, "two")
	bad := failing{cs, imagetest.Read[ocispec.Manifest](t, cs, two).Layers[1].Digest}
	// The shared layer is bad, so one cannot come from it either.
	for _, kind := range []endpoint.Kind{endpoint.Layout, endpoint.Archive} {
		base := t.TempDir()
		n := endpoint.Name{Kind: kind, Path: filepath.Join(base, "place"), Ref: "v1"}
		p := &endpoint.Places{}
		if err := p.Put(t.Context(), n, two, bad); !errors.Is(err, errBad) {
			t.Fatalf("%v: %v", n, err)
		}
		if left, _ := os.ReadDir(base); len(left) != 0 {
			t.Errorf("%v: %v is left", n, left)
		}
		if err := p.Put(t.Context(), n, one, cs); err != nil {
			t.Fatal(err)
		}
		before := list(t, base)
		bad := failing{cs, imagetest.Read[ocispec.Manifest](t, cs, two).Layers[0].Digest}
		if err := p.Put(t.Context(), n, two, bad); !errors.Is(err, errBad) {
			t.Fatalf("%v: %v", n, err)
		}
		if after := list(t, base); after != before {
			t.Errorf("%v: a failure changed\n%s to\n%s", n, before, after)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.Put(ctx, n, two, cs); !errors.Is(err, context.Canceled) {
			t.Fatalf("%v: cancelled: %v", n, err)
		}
		if after := list(t, base); after != before {
			t.Errorf("%v: a cancelled copy changed\n%s to\n%s", n, before, after)
		}
	}
}

func list(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var b []byte
			b, err = os.ReadFile(path)
			out.WriteString(path + " " + digest.FromBytes(b).String() + "\n")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestDamagedSource(t *testing.T) {
	cs := newStore(t)
	one := image(t, cs, "one")
	src := filepath.Join(t.TempDir(), "src")
	p := &endpoint.Places{}
	n := endpoint.Name{Kind: endpoint.Layout, Path: src}
	if err := p.Put(t.Context(), n, one, cs); err != nil {
		t.Fatal(err)
	}
	l := imagetest.Read[ocispec.Manifest](t, cs, one).Layers[0]
	path := filepath.Join(src, "blobs/sha256", l.Digest.Encoded())
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	img, err := p.Open(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	n.Path = filepath.Join(t.TempDir(), "dst")
	if err := p.Put(t.Context(), n, one, img); !errdefs.IsDataLoss(err) {
		t.Errorf("copying a damaged blob: %v", err)
	}
}

// dockerSave is an archive as docker save wrote it before it knew OCI.
func dockerSave(t *testing.T, tars ...[]byte) []byte {
	t.Helper()
	config := ocispec.Image{Platform: ocispec.Platform{OS: "linux", Architecture: "amd64"}, RootFS: ocispec.RootFS{Type: "layers"}}
	var layers []string
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	add := func(name string, b []byte) {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(b)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		w.Write(b)
	}
	for _, l := range tars {
		d := digest.FromBytes(l)
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, d)
		layers = append(layers, d.Encoded()+"/layer.tar")
		add(d.Encoded()+"/layer.tar", l)
	}
	b, _ := json.Marshal(config)
	add("config.json", b)
	b, _ = json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{"app:1"}, "Layers": layers}})
	add("manifest.json", b)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestDockerArchive(t *testing.T) {
	b := dockerSave(t, tarOf("a", "A"), tarOf("b", "B"))
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	w.Write(b)
	w.Close()
	for name, b := range map[string][]byte{"plain": b, "gzip": zipped.Bytes()} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "image")
			if err := os.WriteFile(file, b, 0o644); err != nil {
				t.Fatal(err)
			}
			p := &endpoint.Places{Work: t.TempDir()}
			for _, ref := range []string{"", "1", "docker.io/library/app:1", "app:1"} {
				img, err := p.Open(t.Context(), endpoint.Name{Kind: endpoint.Archive, Path: file, Ref: ref})
				if err != nil {
					t.Fatal(err)
				}
				if m := imagetest.Read[ocispec.Manifest](t, img, img.Target); len(m.Layers) != 2 {
					t.Errorf("manifest is %+v", m)
				}
			}
		})
	}
}

// A target that is something else is not replaced: oci-archive:/dev/null would be
// the end of /dev/null, and the name of an image may be that of a file.
func TestCheckTarget(t *testing.T) {
	dir := t.TempDir()
	for name, b := range map[string][]byte{"program": make([]byte, 1000), "short": []byte("x"), "empty": nil, "old.tar": tarOf("a", "A")} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mknod(filepath.Join(dir, "null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("null", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for name, ok := range map[string]bool{
		"new": true, "empty": true, "old.tar": true,
		"program": false, "short": false, "null": false, "link": false, ".": false, "no/such": false, "program/x": false,
	} {
		n := endpoint.Name{Kind: endpoint.Archive, Path: filepath.Join(dir, name)}
		if err := endpoint.CheckTarget(n); (err == nil) != ok || err != nil && !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An archive that is written can be given to docker load.
func TestArchiveForDocker(t *testing.T) {
	cs := newStore(t)
	file := filepath.Join(t.TempDir(), "image.tar")
	n := endpoint.Name{Kind: endpoint.Archive, Path: file, Ref: "docker.io/library/app:1"}
	if err := (&endpoint.Places{}).Put(t.Context(), n, image(t, cs, "one"), cs); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err != nil {
			t.Fatalf("no manifest.json: %v", err)
		}
		if h.Name != "manifest.json" {
			continue
		}
		var m []struct{ RepoTags, Layers []string }
		if err := json.NewDecoder(r).Decode(&m); err != nil {
			t.Fatal(err)
		}
		if len(m) != 1 || len(m[0].Layers) != 2 || len(m[0].RepoTags) != 1 || m[0].RepoTags[0] != "app:1" {
			t.Errorf("manifest.json is %+v", m)
		}
		return
	}
}
