package store

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
)

func TestOpenBlock(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := blocktest.NewLayer(1, block.MinSize, 2*block.MinSize)
	if _, err := s.Open(t.Context(), l.Ref(0)); !errdefs.IsNotFound(err) {
		t.Errorf("nothing there: %v", err)
	}
	for i := range 2 {
		if err := s.Put(t.Context(), l.Ref(i), l.Frame(i)); err != nil {
			t.Fatal(err)
		}
	}
	same := func(s *Store) {
		t.Helper()
		f, err := s.Open(t.Context(), l.Ref(1))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if p, err := io.ReadAll(f); err != nil || !bytes.Equal(p, l.Frame(1)) {
			t.Errorf("%d bytes that differ, or %v", len(p), err)
		}
	}
	same(s)
	path := s.path(l.Ref(0).Sum, false)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(l.Frame(0))
	bad[3] ^= 1
	if err := os.WriteFile(path, bad, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	same(s)
	if _, err := s.Open(t.Context(), l.Ref(0)); !errdefs.IsNotFound(err) {
		t.Errorf("a block damaged while the store was closed: %v, want ErrNotFound", err)
	}
	lie := l.Ref(1)
	lie.Size--
	if _, err := s.Open(t.Context(), lie); !errdefs.IsNotFound(err) {
		t.Errorf("a ref that lies about the size: %v, want ErrNotFound", err)
	}
}
