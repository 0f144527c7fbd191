package fs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/fs/index"
)

// open opens a file of a mount without Go's poller, as a container would.
func open(t *testing.T, path string, flags int) int {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		t.Fatalf("open %s: %v", path, err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func mmap(t *testing.T, fd, n int) []byte {
	t.Helper()
	p, err := unix.Mmap(fd, 0, n, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(p) })
	return p
}

// fault brings pages of a mapping in by a system call. A plain access would stop
// its thread without the scheduler knowing, and then the FUSE server, which is
// this process, may never run.
func fault(mapped []byte, off, n int) error {
	if n == 0 {
		return nil
	}
	first := off &^ (pageSize - 1)
	return unix.Madvise(mapped[first:off+n], unix.MADV_POPULATE_READ)
}

// mixed answers blocks 0, 3, 6... from memory and the others from the file.
func mixed(l *layer, content []byte, block int64) {
	l.onView(func(_ context.Context, off int64, n int) (Span, error) {
		if off/block%3 != 0 {
			return Span{}, nil
		}
		return Span{Data: bytes.Clone(content[off : off+int64(n)])}, nil
	})
}

func TestFU08_RandomReads(t *testing.T) {
	const block = 512 << 10
	data := random(3, 5*block+100)
	for _, direct := range []bool{false, true} {
		t.Run(fmt.Sprintf("directio=%v", direct), func(t *testing.T) {
			f := newFS(t, Options{DirectIO: direct})
			l, tree := newLayer(t, entry{name: "pad", data: random(4, 1000)}, entry{name: "f", data: data})
			content, err := os.ReadFile(l.file.Name())
			if err != nil {
				t.Fatal(err)
			}
			mixed(l, content, block)
			m := mount(t, f, []*index.Tree{tree}, l)
			path := filepath.Join(m.Dir(), "f")
			fd := open(t, path, 0)
			mapped := mmap(t, fd, len(data))
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(uint64(i), 7))
					room := make([]byte, 3*block+1)
					for range 5000 / 8 {
						off := r.IntN(len(data) + 4096)
						n := 1 + r.IntN(3*block)
						if i == 7 { // mmap
							off = min(off, len(data))
							n = min(n, len(data)-off)
							if err := fault(mapped, off, n); err != nil || !bytes.Equal(mapped[off:off+n], data[off:off+n]) {
								t.Errorf("mmap [%d +%d) differs, %v", off, n, err)
							}
							continue
						}
						buf := room[:n]
						got, err := unix.Pread(fd, buf, int64(off))
						want := data[min(off, len(data)):min(off+n, len(data))]
						if err != nil || !bytes.Equal(buf[:got], want) {
							t.Errorf("pread [%d +%d): %d bytes, want %d, %v", off, n, got, len(want), err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// TestReadBeyondSize reads the flat file itself, which the kernel may do in
// pages beyond its end, with O_DIRECT so that each read is one READ.
func TestReadBeyondSize(t *testing.T) {
	f := newFS(t, Options{})
	l, _ := newLayer(t, entry{name: "f", data: random(5, 300<<10)})
	content, err := os.ReadFile(l.file.Name())
	if err != nil {
		t.Fatal(err)
	}
	n := f.flat.files.use(l)
	fd := open(t, filepath.Join(f.conn.dir, n.name()), unix.O_DIRECT)
	for _, off := range []int64{0, 1, 511, 4096, l.size - 4096, l.size - 100, l.size, l.size + 1} {
		for _, size := range []int{1, 512, 4096, 20000, 64 << 10, maxRead - 1, maxRead} {
			buf := make([]byte, size)
			got, err := unix.Pread(fd, buf, off)
			want := content[min(off, l.size):min(off+int64(size), l.size)]
			if err != nil || !bytes.Equal(buf[:got], want) {
				t.Errorf("[%d +%d): got %d bytes, want %d, %v", off, size, got, len(want), err)
			}
		}
	}
}

func TestFU09_ErrorsDoNotStay(t *testing.T) {
	f := newFS(t, Options{})
	data := random(6, 1<<20)
	l, tree := newLayer(t, entry{name: "f", data: data})
	l.onView(func(context.Context, int64, int) (Span, error) { return Span{}, errors.New("registry says 503") })
	m := mount(t, f, []*index.Tree{tree}, l)
	path := filepath.Join(m.Dir(), "f")
	fd := open(t, path, 0)
	buf := make([]byte, len(data))
	for range 3 {
		if n, err := unix.Pread(fd, buf, 4096); !errors.Is(err, unix.EIO) {
			t.Fatalf("read of a broken layer: %d bytes, %v, want EIO", n, err)
		}
	}
	mapped := mmap(t, fd, len(data))
	if err := fault(mapped, 8192, 1); err == nil {
		t.Error("page of a broken layer could be mapped")
	}
	l.onView(nil)
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
		t.Errorf("after healing the file differs, %v", err)
	}
	if err := fault(mapped, 0, len(data)); err != nil || !bytes.Equal(mapped, data) {
		t.Errorf("after healing the mapping differs, %v", err)
	}
}

// TestNeverShort: a view that gives too little, or a file that ends early, is an
// error. A short reply would shrink the file for the kernel, for good.
func TestNeverShort(t *testing.T) {
	for name, short := range map[string]func(l *layer, end int64) func(context.Context, int64, int) (Span, error){
		"span in memory": func(*layer, int64) func(context.Context, int64, int) (Span, error) {
			return func(_ context.Context, _ int64, n int) (Span, error) { return Span{Data: make([]byte, n-1)}, nil }
		},
		"span in a file": func(l *layer, _ int64) func(context.Context, int64, int) (Span, error) {
			return func(_ context.Context, off int64, n int) (Span, error) {
				return Span{File: l.file, Offset: off, Len: n - 1}, nil
			}
		},
		"file ends inside the span": func(l *layer, end int64) func(context.Context, int64, int) (Span, error) {
			return func(_ context.Context, off int64, n int) (Span, error) {
				return Span{File: l.file, Offset: end - int64(n/2)&^(pageSize-1), Len: n}, nil
			}
		},
		"too long": func(l *layer, _ int64) func(context.Context, int64, int) (Span, error) {
			return func(_ context.Context, off int64, n int) (Span, error) {
				return Span{File: l.file, Offset: off, Len: n + 1}, nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFS(t, Options{})
			data := random(7, 2<<20)
			l, tree := newLayer(t, entry{name: "f", data: data})
			view := short(l, l.size)
			l.onView(view)
			m := mount(t, f, []*index.Tree{tree}, l)
			path := filepath.Join(m.Dir(), "f")
			fd := open(t, path, 0)
			buf := make([]byte, len(data))
			for _, off := range []int64{0, 1 << 20, 1<<20 + 5000} {
				if n, err := unix.Pread(fd, buf, off); !errors.Is(err, unix.EIO) {
					t.Errorf("read at %d: %d bytes, %v, want EIO", off, n, err)
				}
			}
			l.onView(nil)
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
				t.Errorf("after healing the file differs, %v", err)
			}
		})
	}
}

func TestReadDeadline(t *testing.T) {
	f := newFS(t, Options{ReadTimeout: 50 * time.Millisecond})
	data := random(8, 64<<10)
	l, tree := newLayer(t, entry{name: "f", data: data})
	l.onView(func(ctx context.Context, _ int64, _ int) (Span, error) {
		<-ctx.Done()
		return Span{}, context.Cause(ctx)
	})
	m := mount(t, f, []*index.Tree{tree}, l)
	path := filepath.Join(m.Dir(), "f")
	if _, err := os.ReadFile(path); !errors.Is(err, unix.EIO) {
		t.Errorf("read of a hung layer: %v, want EIO", err)
	}
	l.onView(nil)
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
		t.Errorf("after healing the file differs, %v", err)
	}
}

// TestHungLayerDoesNotStopAnother fills the kernel's requests with readers of a
// layer that never answers. SIGKILL of such a reader frees nothing, only the
// limit of each layer does.
func TestHungLayerDoesNotStopAnother(t *testing.T) {
	f := newFS(t, Options{MaxBackground: 64, ReadTimeout: time.Hour})
	data := random(9, 64<<20)
	hung, th := newLayer(t, entry{name: "hung", data: data})
	good, tg := newLayer(t, entry{name: "good", data: data[:1<<20]})
	m := mount(t, f, []*index.Tree{th, tg}, hung, good)
	stuck := make(chan struct{}, 1000)
	hung.onView(func(ctx context.Context, _ int64, _ int) (Span, error) {
		stuck <- struct{}{}
		<-ctx.Done()
		return Span{}, context.Cause(ctx)
	})
	fd := open(t, filepath.Join(m.Dir(), "hung"), 0)
	var readers sync.WaitGroup
	refused := make(chan error, 200)
	for i := range 200 {
		readers.Go(func() {
			_, err := unix.Pread(fd, make([]byte, 1), int64(i)*(256<<10))
			refused <- err
		})
	}
	for range 64 / 2 { // the limit of a layer
		receive(t, stuck)
	}
	if err := receive(t, refused); !errors.Is(err, unix.EIO) { // somebody is over the limit
		t.Errorf("reader over the limit: %v, want EIO", err)
	}
	read := make(chan error)
	go func() {
		got, err := os.ReadFile(filepath.Join(m.Dir(), "good"))
		if err == nil && !bytes.Equal(got, data[:1<<20]) {
			err = errors.New("bytes differ")
		}
		read <- err
	}()
	if err := receive(t, read); err != nil {
		t.Errorf("the good layer: %v", err)
	}
	if err := f.Close(); err != nil { // frees the readers
		t.Error(err)
	}
	readers.Wait()
}

func TestFU04_Statfs(t *testing.T) {
	f := newFS(t, Options{})
	l, tree := newLayer(t, entry{name: "f", data: random(1, 5000)})
	m := mount(t, f, []*index.Tree{tree}, l)
	var want, flat, image unix.Statfs_t
	for path, st := range map[string]*unix.Statfs_t{f.dir: &want, f.conn.dir: &flat, m.Dir(): &image} {
		if err := unix.Statfs(path, st); err != nil {
			t.Fatal(err)
		}
	}
	near := func(a, b uint64) bool { return max(a, b)-min(a, b) <= max(a, b)/100 }
	if !near(flat.Blocks, want.Blocks) || !near(flat.Bavail, want.Bavail) || !near(flat.Files, want.Files) || flat.Bsize != want.Bsize || flat.Namelen != 255 {
		t.Errorf("statfs of the layers %+v, want about %+v", flat, want)
	}
	if image.Blocks == 0 || image.Namelen != 255 || image.Bsize == 0 {
		t.Errorf("statfs of the image %+v", image)
	}
}

// TestFlatDirectory lists the FUSE mount through a small buffer.
func TestFlatDirectory(t *testing.T) {
	f := newFS(t, Options{})
	want := map[string]int64{}
	for i := range 300 {
		n := f.flat.files.use(&memory{make([]byte, i+1)})
		want[n.name()] = int64(i + 1)
	}
	d, err := os.Open(f.conn.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for round := range 2 {
		names, err := d.Readdirnames(-1)
		if err != nil || len(names) != len(want) {
			t.Fatalf("round %d: %d names, %v", round, len(names), err)
		}
		for _, name := range names {
			fi, err := os.Lstat(filepath.Join(f.conn.dir, name))
			if err != nil || fi.Size() != want[name] || fi.Mode() != 0o400 {
				t.Errorf("%s: %v, %v", name, fi, err)
			}
		}
		if _, err := d.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
	}
}
