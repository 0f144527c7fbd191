package store

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/faasnet/faasnet/fs/block"
)

func put(t *testing.T, s *Store, ref block.Ref, p []byte) {
	t.Helper()
	if err := s.Put(context.Background(), ref, p); err != nil {
		t.Fatal(err)
	}
}

// has reads the block and reports whether it is there; wrong bytes fail the test.
func has(t *testing.T, s *Store, ref block.Ref, want []byte) bool {
	t.Helper()
	got, err := s.ReadBlock(context.Background(), ref, nil)
	if errors.Is(err, errdefs.ErrNotFound) {
		return false
	}
	if err != nil || string(got) != string(want) {
		t.Fatalf("%v: wrong bytes or error: %v", ref, err)
	}
	return true
}

// diskBytes returns what the files below root take.
func diskBytes(t *testing.T, root, dir string) (n int64) {
	t.Helper()
	err := fsWalk(root+"/"+dir, func(fi os.FileInfo) { n += onDisk(fi.Size()) })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestLeastRecentlyUsedGoesFirst(t *testing.T) {
	s := open(t, t.TempDir(), Options{MaxBytes: 4 * 4096})
	for i := range 4 {
		ref, p := testBlock("a", i, 4096)
		put(t, s, ref, p)
	}
	first, p0 := testBlock("a", 0, 4096)
	if !has(t, s, first, p0) {
		t.Fatal("block 0 is not there")
	}
	ref, p := testBlock("a", 4, 4096)
	put(t, s, ref, p)
	for i, want := range []bool{true, false, true, true, true} {
		ref, p := testBlock("a", i, 4096)
		if got := has(t, s, ref, p); got != want {
			t.Errorf("block %d there: %v, want %v", i, got, want)
		}
	}
}

func TestOrderOfUseSurvivesRestart(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, Options{})
	for i := range 4 {
		ref, p := testBlock("a", i, 4096)
		put(t, s, ref, p)
		at := time.Unix(int64(1000-i), 0) // block 3 is the oldest
		if err := os.Chtimes(s.path(ref.Sum, false), at, at); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	s = open(t, root, Options{MaxBytes: 2 * 4096})
	for i, want := range []bool{true, true, false, false} {
		ref, p := testBlock("a", i, 4096)
		if got := has(t, s, ref, p); got != want {
			t.Errorf("block %d there: %v, want %v", i, got, want)
		}
	}
	if n := diskBytes(t, root, "blocks"); n > 2*4096 {
		t.Errorf("%d bytes on disk after Open with a smaller limit", n)
	}
}

func TestSectionsAreExempt(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := open(t, t.TempDir(), Options{MaxBytes: 2 * 4096, Registerer: reg})
	section, sp := testBlock("a", 100, 9000)
	section.Number = block.Section
	put(t, s, section, sp)
	for i := range 10 {
		ref, p := testBlock("a", i, 4096)
		put(t, s, ref, p)
	}
	if !has(t, s, section, sp) {
		t.Error("a section was evicted")
	}
	u := s.Usage()
	if u.Blocks != 2 || u.BlockBytes != 2*4096 || u.Sections != 1 || u.SectionBytes != 3*4096 {
		t.Errorf("usage %+v", u)
	}
	if n, err := testutil.GatherAndCount(reg); err != nil || n == 0 {
		t.Errorf("metrics: %d, %v", n, err)
	}
	// What was a block becomes a section, exempt from now on, and stays one.
	ref, p := testBlock("a", 9, 4096)
	asSection := ref
	asSection.Number = block.Section
	put(t, s, asSection, p)
	put(t, s, ref, p)
	for i := range 5 {
		other, q := testBlock("b", i, 4096)
		put(t, s, other, q)
	}
	if !has(t, s, ref, p) {
		t.Error("a block that is a section as well was evicted")
	}
}

func TestPutRefuses(t *testing.T) {
	s := open(t, t.TempDir(), Options{MaxBytes: 8192})
	ref, p := testBlock("a", 0, 100)
	for name, c := range map[string]struct {
		change func(*block.Ref)
		want   error
	}{
		"length":     {func(r *block.Ref) { r.Size = 99 }, errdefs.ErrInvalidArgument},
		"number":     {func(r *block.Ref) { r.Number = block.MaxBlocks }, errdefs.ErrInvalidArgument},
		"below zero": {func(r *block.Ref) { r.Number = -2 }, errdefs.ErrInvalidArgument},
		"path":       {func(r *block.Ref) { r.Blob = "sha256:../../x" }, nil},
	} {
		r := ref
		c.change(&r)
		if err := s.Put(context.Background(), r, p); err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	big, q := testBlock("a", 1, 8193)
	if err := s.Put(context.Background(), big, q); !errdefs.IsResourceExhausted(err) {
		t.Errorf("block larger than the store: %v", err)
	}
	if u := s.Usage(); u.Blocks != 0 || u.BlockBytes != 0 {
		t.Errorf("usage %+v after refusals only", u)
	}
}

// GD-03: eviction while readers and relays hold blocks.
func TestGD03_EvictionUnderReaders(t *testing.T) {
	const blocks, size = 64, 16 << 10
	root := t.TempDir()
	s := open(t, root, Options{MaxBytes: blocks / 8 * size})
	var refs [blocks]block.Ref
	var data [blocks][]byte
	for i := range refs {
		refs[i], data[i] = testBlock("a", i, size)
	}
	var wg sync.WaitGroup
	for g := range 10 {
		wg.Go(func() {
			for i := range 400 {
				n := (i*(g+1) + g) % blocks
				ref, p := refs[n], data[n]
				got, err := s.ReadBlock(context.Background(), ref, nil)
				if errors.Is(err, errdefs.ErrNotFound) {
					err = s.Put(context.Background(), ref, p)
					got = p
				}
				if err != nil || string(got) != string(p) {
					t.Errorf("%v: wrong bytes or error: %v", ref, err)
					return
				}
			}
		})
	}
	wg.Wait()
	u := s.Usage()
	if n := diskBytes(t, root, "blocks"); n != u.BlockBytes || n > blocks/8*size {
		t.Errorf("%d bytes on disk, %d in the index, limit %d", n, u.BlockBytes, blocks/8*size)
	}
	if s.metrics.damaged.Load() != 0 {
		t.Error("good blocks were taken for damaged")
	}
}
