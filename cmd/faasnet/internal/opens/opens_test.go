package opens_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/cmd/faasnet/internal/opens"
	"github.com/faasnet/faasnet/fs/index/indextest"
	"github.com/faasnet/faasnet/fs/mounttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(mounttest.Guard(m)) }

func touch(t *testing.T, name string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe has no writer
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// tree has a program, files, a link, a pipe and a directory.
func tree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string][]byte{"d/busybox": busybox, "a": []byte("A"), "d/b": []byte("B"), "mapped": []byte("M"), "not": nil} {
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("d/b", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestWatch(t *testing.T) {
	lower := tree(t)
	for name, dir := range map[string]string{"overlay": indextest.Overlay(t, lower), "another file system": tree(t)} {
		t.Run(name, func(t *testing.T) {
			touch(t, filepath.Join(dir, "not"))
			w, err := opens.Start(dir)
			if err != nil {
				t.Fatal(err)
			}
			touch(t, filepath.Join(dir, "link"))
			touch(t, filepath.Join(dir, "d")) // no regular file
			touch(t, filepath.Join(dir, "fifo"))
			if out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "d/busybox"), "cat", filepath.Join(dir, "a")).CombinedOutput(); err != nil || string(out) != "A" {
				t.Fatalf("%s, %v", out, err)
			}
			// In a mount namespace of its own, as a container.
			if out, err := exec.CommandContext(t.Context(), "unshare", "-m", "cat", filepath.Join(dir, "mapped")).CombinedOutput(); err != nil || string(out) != "M" {
				t.Fatalf("%s, %v", out, err)
			}
			m, err := os.Open(filepath.Join(dir, "mapped"))
			if err != nil {
				t.Fatal(err)
			}
			p, err := unix.Mmap(int(m.Fd()), 0, 1, unix.PROT_READ, unix.MAP_PRIVATE)
			if err != nil {
				t.Fatal(err)
			}
			m.Close()
			touch(t, filepath.Join(dir, "d/b"))
			touch(t, filepath.Join(lower, "not"))
			got, err := w.Stop()
			if err != nil {
				t.Fatal(err)
			}
			if p[0] != 'M' {
				t.Errorf("the mapped file has %q", p)
			}
			if err := unix.Munmap(p); err != nil {
				t.Error(err)
			}
			if want := []string{"d/b", "d/busybox", "a", "mapped"}; !slices.Equal(got, want) {
				t.Errorf("opened were %q, want %q", got, want)
			}
		})
	}
	if w, err := opens.Start(filepath.Join(lower, "none")); err == nil {
		w.Stop()
		t.Error("a tree that is not there can be watched")
	}
}

// TestStopEnds: also while files are opened faster than the watch looks at them.
func TestStopEnds(t *testing.T) {
	dir := tree(t)
	names := make([]string, 10_000)
	for i := range names {
		names[i] = filepath.Join(dir, "d", strconv.Itoa(i))
		if err := os.WriteFile(names[i], nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w, err := opens.Start(dir)
	if err != nil {
		t.Fatal(err)
	}
	var opening sync.WaitGroup
	end, begun := make(chan struct{}), make(chan struct{})
	for i := range 4 {
		opening.Go(func() {
			for j := i; ; j++ {
				if f, err := os.Open(names[j%len(names)]); err != nil {
					t.Error(err)
				} else {
					f.Close()
				}
				select {
				case begun <- struct{}{}:
				case <-end:
					return
				default:
				}
			}
		})
	}
	<-begun
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if got, err := w.Stop(); err != nil || len(got) == 0 {
			t.Errorf("opened were %q, %v", got, err)
		}
	}()
	select {
	case <-stopped:
	case <-time.After(time.Minute):
		t.Error("the watch does not end")
	}
	close(end)
	opening.Wait()
	<-stopped
}
