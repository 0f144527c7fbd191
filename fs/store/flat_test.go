package store

import (
	"bytes"
	"context"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
)

const testBlockSize = 4096

func testFlat(t *testing.T, s *Store, seed string, blocks int) (*Flat, [][]byte) {
	t.Helper()
	data := make([][]byte, blocks)
	length := int64(0)
	for i := range data {
		n := testBlockSize
		if i == blocks-1 {
			n = 100
		}
		_, data[i] = testBlock(seed, i, n)
		length += int64(n)
	}
	f, err := s.Flat(FlatID{Blob: digest.FromString(seed), BlockSize: testBlockSize, Length: length})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, data
}

func TestFlatWritePinSeal(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, Options{})
	f, data := testFlat(t, s, "a", 5)
	if _, ok, err := f.Pin(0, 0); ok || err != nil {
		t.Fatal("pinned an absent block", err)
	}
	if err := f.Seal(context.Background()); !errdefs.IsFailedPrecondition(err) {
		t.Fatal("sealed an incomplete file:", err)
	}
	for i, p := range data {
		if err := f.Write(i, p); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Seal(context.Background()); err != nil {
		t.Fatal(err)
	}
	check := func(f *Flat) {
		t.Helper()
		pins, ok, err := f.Pin(0, 4)
		if err != nil || !ok {
			t.Fatal("cannot pin", ok, err)
		}
		defer pins.Release()
		got := make([]byte, f.Length())
		if _, err := pins.File().ReadAt(got, 0); err != nil || !bytes.Equal(got, bytes.Join(data, nil)) {
			t.Fatal("flat file differs", err)
		}
	}
	check(f)
	s.Close()
	s = open(t, root, Options{})
	f, _ = testFlat(t, s, "a", 5)
	if _, ok := f.Local(); !ok {
		t.Fatal("sealed file is not trusted after reopen")
	}
	check(f)
}
