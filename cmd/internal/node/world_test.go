package node

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/plugins/content/local"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/cmd/internal/config"
	"github.com/faasnet/faasnet/convert"
	"github.com/faasnet/faasnet/convert/imagetest"
	record "github.com/faasnet/faasnet/convert/start"
	"github.com/faasnet/faasnet/fs"
	"github.com/faasnet/faasnet/fs/index/indextest"
	"github.com/faasnet/faasnet/fs/mounttest"
	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(mounttest.Guard(m)) }

// repo is where the test image is, and otherRepo has the same.
const repo, otherRepo = "team/app", "other/copy"

// world is a converted image in a registry, and its layers unpacked for comparison.
type world struct {
	reg    *registrytest.Registry
	labels []map[string]string // of the layers, bottom first, the index layer last
	dirs   []string            // the same layers unpacked by containerd, without the index layer
}

// newWorld has an image of three layers, which replace and delete.
func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOf(t, registrytest.Options{}, tarOf(
		indextest.Header{Name: "etc/", Type: '5', Mode: 0o755},
		indextest.Header{Name: "etc/passwd", Body: "root:x:0:0\n"},
		indextest.Header{Name: "etc/shadow", Body: "secret", Mode: 0o600, UID: 5, GID: 6},
		indextest.Header{Name: "big", Body: text(1, 3<<20+100)},
		indextest.Header{Name: "gone/", Type: '5', Mode: 0o700, UID: 7},
		indextest.Header{Name: "gone/file", Body: "x"},
	), tarOf(
		indextest.Header{Name: "etc/shadow", Type: '2', Link: "passwd"},
		indextest.Header{Name: "usr/bin/tool", Body: text(2, 700<<10), Mode: 0o4755},
		indextest.Header{Name: "usr/bin/alias", Type: '1', Link: "usr/bin/tool"},
		indextest.Header{Name: ".wh.gone"},
	), tarOf(
		indextest.Header{Name: "gone/", Type: '5', Mode: 0o755, UID: 9},
		indextest.Header{Name: "gone/new", Body: text(3, 100<<10)},
		indextest.Header{Name: "etc/.wh.passwd"},
	))
}

// newWorldOf has an image of these layers.
func newWorldOf(t *testing.T, o registrytest.Options, layers ...[]byte) *world {
	t.Helper()
	return newRecordedWorld(t, o, nil, layers...)
}

// newRecordedWorld has an image of these layers, and of a start layer of what is
// recorded.
func newRecordedWorld(t *testing.T, o registrytest.Options, r record.Record, layers ...[]byte) *world {
	t.Helper()
	w := &world{reg: registrytest.New(t, o)}
	var err error
	if w.dirs, err = indextest.Unpack(t, layers...); err != nil {
		t.Fatal(err)
	}
	image := imagetest.Image{}
	for _, l := range layers {
		image.Layers = append(image.Layers, imagetest.Layer{Tar: l})
	}
	cs, err := local.NewStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	converted, err := convert.Image(t.Context(), cs, imagetest.Put(t, cs, image), convert.Options{Record: r})
	if err != nil {
		t.Fatal(err)
	}
	for _, desc := range imagetest.Read[ocispec.Manifest](t, cs, *converted).Layers {
		blob, err := content.ReadBlob(t.Context(), cs, desc)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{repo, otherRepo} {
			if _, _, err := w.reg.AddBlob(name, bytes.NewReader(blob)); err != nil {
				t.Fatal(err)
			}
		}
		l := maps.Clone(desc.Annotations)
		l[refLabel] = w.reg.Host() + "/" + repo + ":v1"
		w.labels = append(w.labels, l)
	}
	return w
}

func tarOf(headers ...indextest.Header) []byte {
	return new(indextest.Tar).Add(headers...).Bytes()
}

// text is hard to compress.
func text(seed uint64, n int) string {
	var s [32]byte
	s[0] = byte(seed)
	p := make([]byte, n)
	rand.NewChaCha8(s).Read(p)
	return string(p)
}

// daemon is a Node that runs.
type daemon struct {
	*Node
	root string
	stop func()
}

func (w *world) config() *config.Config {
	c := config.Default()
	c.BackgroundFetch = false
	c.Registry.PlainHTTP = []string{w.reg.Host()}
	c.Registry.ConfigPath = ""
	return c
}

// start runs a Node over root; stop ends it as SIGTERM does.
func start(t *testing.T, root string, c *config.Config) *daemon {
	t.Helper()
	n, err := Open(t.Context(), root, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- n.Run(ctx) }()
	stopped := false
	d := &daemon{Node: n, root: root}
	d.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("run: %v", err)
		}
		if err := n.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := n.Close(); err != nil {
			t.Errorf("second close: %v", err)
		}
	}
	t.Cleanup(func() { // whatever the test left
		for user := range maps.Clone(n.users) {
			n.Release(context.Background(), user)
		}
		d.stop()
		if n.driver != nil {
			n.driver.Close()
		}
		if left, err := fs.Recover(filepath.Join(root, "fs")); err != nil || len(left) > 0 {
			t.Errorf("mounts left: %v, %v", left, err)
		}
	})
	return d
}

func (d *daemon) mount(t *testing.T, user string, labels []map[string]string, lower ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	dir, err := d.Mount(ctx, user, labels, lower)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// overlay mounts dirs, top first.
func overlay(t *testing.T, dirs ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("overlay", dir, "overlay", unix.MS_RDONLY, "lowerdir="+strings.Join(append(dirs, t.TempDir()), ":")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

func blobRequests(w *world) (n int) {
	for _, q := range w.reg.Requests() {
		if q.Is(registrytest.Blobs) {
			n++
		}
	}
	return n
}

func readFile(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	} else if string(got) != want {
		t.Errorf("%s differs", path)
	}
}

func users(n int) []string {
	var l []string
	for i := range n {
		l = append(l, fmt.Sprint("user-", i))
	}
	return l
}
