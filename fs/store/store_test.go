package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/block"
)

func open(t *testing.T, root string, o Options) *Store {
	t.Helper()
	s, err := Open(root, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// testBlock returns random block i of the layer that is named by seed.
func testBlock(seed string, i, size int) (block.Ref, []byte) {
	key := sha256.Sum256([]byte(seed))
	key[0] ^= byte(i)
	key[1] ^= byte(i >> 8)
	p := make([]byte, size)
	_, _ = rand.NewChaCha8(key).Read(p)
	return block.Ref{Blob: digest.FromString(seed), Number: i, Offset: int64(i * size), Size: size, Sum: sha256.Sum256(p)}, p
}

func TestOpenTwice(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, Options{})
	if _, err := Open(root, Options{}); !errdefs.IsFailedPrecondition(err) {
		t.Fatalf("second Open: %v, want failed precondition", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal("second Close:", err)
	}
	open(t, root, Options{})
}

func TestPutRead(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, Options{})
	ctx := context.Background()
	ref, p := testBlock("a", 0, 5000)
	if _, err := s.ReadBlock(ctx, ref, nil); !errors.Is(err, errdefs.ErrNotFound) {
		t.Fatal(err)
	}
	if err := s.Put(ctx, ref, p); err != nil {
		t.Fatal(err)
	}
	got, err := s.ReadBlock(ctx, ref, []byte("xy"))
	if err != nil || string(got) != "xy"+string(p) {
		t.Fatal("read differs", err)
	}
	s.Close()
	s = open(t, root, Options{})
	if got, err := s.ReadBlock(ctx, ref, nil); err != nil || string(got) != string(p) {
		t.Fatal("read after reopen differs", err)
	}
	if err := s.Retain(func(digest.Digest) bool { return false }); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ReadBlock(ctx, ref, nil); !errors.Is(err, errdefs.ErrNotFound) {
		t.Fatal("block stays after Retain:", err)
	}
}
