package fetch

import (
	"bytes"
	"context"
	"testing"

	"github.com/opencontainers/go-digest"
	"go.uber.org/goleak"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
	"github.com/faasnet/faasnet/fs/mounttest"
	"github.com/faasnet/faasnet/fs/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(mounttest.Guard(m)) }

// blockSize of the layers in tests.
const blockSize = 4096

func newStore(t *testing.T, o store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func only(src block.Source) Origin { return func(digest.Digest) block.Source { return src } }

func newFetcher(t *testing.T, s *store.Store, origin block.Source, o Options) *Fetcher {
	t.Helper()
	f, err := New(s, only(origin), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func openLayer(t *testing.T, f *Fetcher, l *blocktest.Layer) *Layer {
	t.Helper()
	out, err := f.Layer(l.Digest, l.Table)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	return out
}

// content reads the bytes of a span and gives it back.
func content(t *testing.T, s Span) []byte {
	t.Helper()
	if s.Done != nil {
		defer s.Done()
	}
	if s.File == nil {
		return bytes.Clone(s.Data)
	}
	p := make([]byte, s.Len)
	if _, err := s.File.ReadAt(p, s.Offset); err != nil {
		t.Error(err)
	}
	return p
}

func TestConformance(t *testing.T) {
	blocktest.Test(t, func(t *testing.T) (block.Source, func(block.Ref, []byte)) {
		origin := &blocktest.Memory{}
		return newFetcher(t, newStore(t, store.Options{}), origin, Options{}), origin.Put
	})
}

func TestView(t *testing.T) {
	layer := blocktest.NewLayer(1, blockSize, 5*blockSize+100)
	f := newFetcher(t, newStore(t, store.Options{}), layer.Source(), Options{})
	l := openLayer(t, f, layer)
	for _, r := range [][2]int{{0, 10}, {4090, 20}, {5*blockSize + 90, 10}, {0, int(l.Size())}, {100, 0}} {
		s, err := l.View(context.Background(), int64(r[0]), r[1])
		if err != nil {
			t.Fatal(err)
		}
		if got := content(t, s); !bytes.Equal(got, layer.Stream[r[0]:r[0]+r[1]]) {
			t.Fatalf("%d bytes at %d differ", r[1], r[0])
		}
	}
	for _, r := range [][2]int{{-1, 2}, {0, int(l.Size()) + 1}, {int(l.Size()), 1}, {0, -1}} {
		if _, err := l.View(context.Background(), int64(r[0]), r[1]); err == nil {
			t.Fatalf("no error for %d bytes at %d", r[1], r[0])
		}
	}
}
