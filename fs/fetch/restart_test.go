package fetch

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
	"github.com/faasnet/faasnet/fs/store"
)

// session is one life of the daemon's store and fetcher.
func session(t *testing.T, root string, origin block.Source, use func(*Fetcher)) {
	t.Helper()
	s, err := store.Open(root, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := New(s, only(origin), Options{ReadAhead: -1})
	if err != nil {
		t.Fatal(err)
	}
	use(f)
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// readBlocks reads the blocks of the layer through both ways and returns how
// many can be read; wrong bytes fail the test.
func readBlocks(t *testing.T, f *Fetcher, of *blocktest.Layer, blocks ...int) (good int) {
	t.Helper()
	l, err := f.Layer(of.Digest, of.Table)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, i := range blocks {
		ok := true
		for _, w := range ways {
			err := w.read(t.Context(), f, l, of, i)
			if err != nil && !errdefs.IsUnavailable(err) {
				t.Errorf("%s of block %d: %v", w.name, i, err)
			}
			ok = ok && err == nil
		}
		if ok {
			good++
		}
	}
	return good
}

// RR-06: after a restart exactly the damaged blocks are fetched again.
func TestRR06_DamagedBlocksAreFetchedAgain(t *testing.T) {
	root := t.TempDir()
	of := blocktest.NewLayer(1, blockSize, 8*blockSize)
	all := []int{0, 1, 2, 3, 4, 5, 6, 7}
	session(t, root, of.Source(), func(f *Fetcher) { readBlocks(t, f, of, all...) })
	files, err := filepath.Glob(filepath.Join(root, "blocks", "*"))
	if err != nil || len(files) != 8 {
		t.Fatal(files, err)
	}
	for i, path := range files[:3] {
		p, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		switch i {
		case 0:
			p[len(p)/2] ^= 1
		case 1:
			p = p[:len(p)-1]
		case 2:
			clear(p)
		}
		if err := os.WriteFile(path, p, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	origin := blocktest.Count(of.Source())
	session(t, root, origin, func(f *Fetcher) {
		if n := readBlocks(t, f, of, all...); n != 8 {
			t.Errorf("%d of 8 blocks can be read", n)
		}
	})
	if n := origin.Calls(); n != 3 {
		t.Errorf("%d requests for 3 damaged blocks", n)
	}
}

// RR-02: with the registry down after a restart, what is cached is read, the
// rest is an error until the registry is back, and nothing needs a restart.
func TestRR02_RegistryDownAtStart(t *testing.T) {
	root := t.TempDir()
	cached := blocktest.NewLayer(1, blockSize, 8*blockSize)
	partly := blocktest.NewLayer(2, blockSize, 8*blockSize)
	registry := &blocktest.Memory{}
	cached.Each(registry.Put)
	partly.Each(registry.Put)
	all := []int{0, 1, 2, 3, 4, 5, 6, 7}
	session(t, root, registry, func(f *Fetcher) {
		l, err := f.Layer(cached.Digest, cached.Table)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.fill(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.seal(t.Context(), l)
		l.Close()
		readBlocks(t, f, partly, 3)
	})
	up := false
	origin := block.SourceFunc(func(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
		if !up {
			return dst, errdefs.ErrUnavailable
		}
		return registry.ReadBlock(ctx, ref, dst)
	})
	session(t, root, origin, func(f *Fetcher) {
		l, err := f.Layer(cached.Digest, cached.Table)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		checkLocal(t, l, cached)
		if n := readBlocks(t, f, cached, all...); n != 8 {
			t.Errorf("%d of 8 cached blocks can be read", n)
		}
		if n := readBlocks(t, f, partly, 0, 3, 7); n != 1 {
			t.Errorf("%d of 3 blocks can be read, one is cached", n)
		}
		up = true
		if n := readBlocks(t, f, partly, all...); n != 8 {
			t.Errorf("%d of 8 blocks can be read after the registry is back", n)
		}
	})
}
