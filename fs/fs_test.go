package fs

import (
	"archive/tar"
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/fs/index"
	"github.com/faasnet/faasnet/fs/mounttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(mounttest.Guard(m)) }

// newFS gives a running FS that the end of the test takes away.
func newFS(t *testing.T, o Options) *FS {
	t.Helper()
	dir := t.TempDir()
	if o.Grace == 0 {
		o.Grace = 500 * time.Millisecond
	}
	f, err := New(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- f.Run(context.Background()) }()
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := <-ran; err != nil {
			t.Errorf("run: %v", err)
		}
		if left, err := Recover(dir); err != nil || len(left) > 0 {
			t.Errorf("mounts left: %v, %v", left, err)
		}
	})
	return f
}

// layer is a File over a tar on disk. view, when set, is asked first; nil spans
// with nil errors mean: as if it were not set.
type layer struct {
	file  *os.File
	size  int64
	local atomic.Bool
	views atomic.Int64
	pins  atomic.Int64 // spans given and not yet given back
	view  atomic.Pointer[func(ctx context.Context, off int64, n int) (Span, error)]
}

func (l *layer) Size() int64           { return l.size }
func (l *layer) Local() (string, bool) { return l.file.Name(), l.local.Load() }

func (l *layer) View(ctx context.Context, off int64, n int) (Span, error) {
	l.views.Add(1)
	if view := l.view.Load(); view != nil {
		if s, err := (*view)(ctx, off, n); err != nil || s.Len > 0 || s.Data != nil {
			return s, err
		}
	}
	l.pins.Add(1)
	return Span{File: l.file, Offset: off, Len: n, Done: func() { l.pins.Add(-1) }}, nil
}

func (l *layer) onView(view func(ctx context.Context, off int64, n int) (Span, error)) {
	if view == nil {
		l.view.Store(nil)
		return
	}
	l.view.Store(&view)
}

type entry struct {
	name string
	data []byte // nil: a directory
	link string
}

// newLayer writes entries as a tar.
func newLayer(t *testing.T, entries ...entry) (*layer, *index.Tree) {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: 0o644, Size: int64(len(e.data)), ModTime: time.Unix(1700000000, 0), Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if e.data == nil {
			h.Typeflag, h.Mode = tar.TypeDir, 0o755
		}
		if e.link != "" {
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(e.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.CreateTemp(t.TempDir(), "layer-*.tar")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(b.Bytes()); err != nil {
		t.Fatal(err)
	}
	l := &layer{file: file, size: int64(b.Len())}
	t.Cleanup(func() {
		if n := l.pins.Load(); n != 0 {
			t.Errorf("%d spans were not given back", n)
		}
		file.Close()
	})
	tree, err := index.FromTar(&b)
	if err != nil {
		t.Fatal(err)
	}
	return l, tree
}

// mount merges the trees and mounts them, layer i on device i+1.
func mount(t *testing.T, f *FS, trees []*index.Tree, layers ...*layer) *Mount {
	t.Helper()
	m, err := f.Mount(t.Context(), image(t, trees, layers...), files(layers))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func image(t *testing.T, trees []*index.Tree, layers ...*layer) []byte {
	t.Helper()
	merged, err := index.Merge(trees, nil)
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int64
	for _, l := range layers {
		sizes = append(sizes, l.size)
	}
	img, err := merged.Encode(sizes)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func files(layers []*layer) []File {
	var l []File
	for _, f := range layers {
		l = append(l, f)
	}
	return l
}

// receive fails the test, so that it still cleans up, where it would hang.
func receive[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(30 * time.Second):
		t.Fatal("nothing happened for 30 s")
	}
	return v
}

func random(seed uint64, n int) []byte {
	var s [32]byte
	s[0], s[1] = byte(seed), byte(seed>>8)
	p := make([]byte, n)
	rand.NewChaCha8(s).Read(p)
	return p
}

// requests counts what the kernel asked of the FUSE mount.
func requests(t *testing.T, f *FS) float64 {
	t.Helper()
	return counter(t, f.metrics.requests)
}

// counter sums a counter over its labels.
func counter(t *testing.T, c prometheus.Collector) (n float64) {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			n += m.GetCounter().GetValue()
		}
	}
	return n
}

// dropCaches makes the kernel ask again for what it knew of dir's file system.
func dropCaches(t *testing.T) {
	t.Helper()
	unix.Sync()
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0); err != nil {
		t.Fatal(err)
	}
}
