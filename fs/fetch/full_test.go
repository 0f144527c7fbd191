package fetch

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/log"
	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/fs/block/blocktest"
	"github.com/faasnet/faasnet/fs/store"
)

// GD-04: on a disk of 32 MiB that is full, a layer of 64 MiB is read right,
// with one warning, and is cached again when there is space.
func TestGD04_DiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=32m"); err != nil {
		t.Fatal("this test needs root:", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	s, err := store.Open(filepath.Join(dir, "store"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	const size = 512 << 10
	of := blocktest.Cut(distinct(size, 128), size)
	f := newFetcher(t, s, of.Source(), Options{})
	l := openLayer(t, f, of)
	stranger := filepath.Join(dir, "stranger")
	if err := os.WriteFile(stranger, make([]byte, 30<<20), 0o600); err != nil {
		t.Fatal(err)
	}

	var logged lines
	out := log.L.Logger.Out
	log.L.Logger.SetOutput(&logged)
	defer log.L.Logger.SetOutput(out)
	readAll := func() {
		t.Helper()
		for off := int64(0); off < l.Size(); off += 1 << 20 {
			v, err := l.View(t.Context(), off, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(content(t, v), of.Stream[off:off+1<<20]) {
				t.Fatalf("MiB at %d differs", off)
			}
		}
	}
	readAll()
	readAll()
	if n := strings.Count(logged.String(), "level=warning"); n != 1 {
		t.Errorf("%d warnings, want 1:\n%s", n, logged.String())
	}
	if st := l.Stats(); st.FromMemory == 0 || st.Failures != 0 {
		t.Errorf("stats %+v", st)
	}

	if err := os.Remove(stranger); err != nil {
		t.Fatal(err)
	}
	before := s.Usage()
	readAll()
	if after := s.Usage(); after.FlatBytes+after.BlockBytes < before.FlatBytes+before.BlockBytes+16<<20 {
		t.Errorf("nothing is cached after space returned: %+v, then %+v", before, after)
	}
	for i := range of.Table.Len() { // nothing half written is taken for a block
		if p, err := s.ReadBlock(t.Context(), of.Ref(i), nil); err == nil && !bytes.Equal(p, of.Frame(i)) {
			t.Errorf("block %d in the store is wrong", i)
		}
	}
}

// distinct returns that many random blocks that differ in their first bytes
// only: quick to make.
func distinct(size, blocks int) []byte {
	out := bytes.Repeat(blocktest.Random(1, size), blocks)
	for i := range blocks {
		out[i*size], out[i*size+1] = byte(i), byte(i>>8)
	}
	return out
}

// lines is a log in memory.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
