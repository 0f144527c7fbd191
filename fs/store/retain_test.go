package store

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/block"
)

func retain(t *testing.T, s *Store, seeds ...string) {
	t.Helper()
	live := map[digest.Digest]bool{}
	for _, seed := range seeds {
		live[digest.FromString(seed)] = true
	}
	if err := s.Retain(func(d digest.Digest) bool { return live[d] }); err != nil {
		t.Fatal(err)
	}
}

func TestRetain(t *testing.T) {
	for _, reopen := range []bool{false, true} {
		root := t.TempDir()
		s := open(t, root, Options{})
		onlyA, pa := testBlock("a", 0, 5000)
		onlyB, pb := testBlock("b", 0, 5000)
		shared, ps := testBlock("a", 1, 5000)
		sharedB := shared
		sharedB.Blob, sharedB.Number = onlyB.Blob, 7
		section, pm := testBlock("a", 2, 5000)
		section.Number = block.Section
		put(t, s, onlyA, pa)
		put(t, s, onlyB, pb)
		put(t, s, shared, ps)
		put(t, s, section, pm)
		if !has(t, s, sharedB, ps) { // a read is enough for b to want it
			t.Fatal("shared block is not found under b")
		}
		if reopen {
			s.Close()
			s = open(t, root, Options{})
		}
		retain(t, s, "a", "b")
		if u := s.Usage(); u.Blocks != 3 || u.Sections != 1 {
			t.Fatalf("usage %+v when all are live", u)
		}
		retain(t, s, "b")
		if has(t, s, onlyA, pa) || has(t, s, section, pm) {
			t.Error("what only a wants stays")
		}
		if !has(t, s, onlyB, pb) || !has(t, s, sharedB, ps) {
			t.Error("what b wants is gone")
		}
		retain(t, s)
		if u := s.Usage(); u.BlockBytes != 0 || u.SectionBytes != 0 || diskBytes(t, root, "blocks")+diskBytes(t, root, "sections") != 0 {
			t.Errorf("usage %+v when none is live", u)
		}
		if names, _ := os.ReadDir(filepath.Join(root, "blobs")); len(names) != 0 {
			t.Errorf("%d lists stay", len(names))
		}
	}
}

// A blob's list has one place for each block, whatever comes and goes.
func TestListIsBounded(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, Options{MaxBytes: 2 * 4096})
	for range 5 {
		for i := range 10 {
			ref, p := testBlock("a", i, 100)
			put(t, s, ref, p)
			ref.Number = block.Section
			put(t, s, ref, p)
		}
	}
	if got, limit := diskBytes(t, root, "blobs"), onDisk(int64((sectionSlots+1+10)*recordSize)); got > limit {
		t.Errorf("list of %d bytes, want at most %d", got, limit)
	}
}

// Lists and names that a crash or a stranger left do not stop Open and name
// nothing that is believed.
func TestStrangeFiles(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, Options{})
	ref, p := testBlock("a", 0, 5000)
	put(t, s, ref, p)
	s.Close()
	if err := os.MkdirAll(filepath.Join(root, "blocks", "00"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"blobs/sha256-zz": []byte("x"),
		"blobs/" + blobName(digest.FromString("torn")):  []byte("faas"),
		"blobs/" + blobName(digest.FromString("zeros")): make([]byte, 1000),
		"blobs/" + blobName(digest.FromString("noise")): append([]byte("faasnet blob 1\n"), bytes.Repeat([]byte{7}, 1000)...),
		"blocks/00/short":                   []byte("x"),
		"blocks/00/" + ref.Sum.String():     []byte("x"),
		"blocks/" + ref.Sum.String() + "00": []byte("x"),
		"sections/" + block.Sum{1}.String(): nil,
		"blocks/x":                          []byte("x"),
		"flat/x":                            []byte("x"),
		"flat/x.sealed":                     []byte("{}"),
		"flat/y-99.sealed":                  []byte("x"),
		"tmp/5":                             []byte("x"),
	} {
		if err := os.WriteFile(filepath.Join(root, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, root, Options{})
	if !has(t, s, ref, p) {
		t.Error("the block is gone")
	}
	retain(t, s, "a")
	if !has(t, s, ref, p) {
		t.Error("the block is gone after Retain")
	}
	if u := s.Usage(); u.Blocks != 1 || u.Sections != 0 || u.Flats != 0 {
		t.Errorf("usage %+v", u)
	}
	if names, _ := os.ReadDir(filepath.Join(root, "flat")); len(names) != 0 {
		t.Errorf("%d strange flat files stay", len(names))
	}
}

func TestRetainKeepsFlatInUse(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, Options{})
	f, data := testFlat(t, s, "a", 3)
	ref, p := testBlock("a", 1, 5000)
	put(t, s, ref, p)
	if err := f.Write(0, data[0]); err != nil {
		t.Fatal(err)
	}
	retain(t, s)
	if !f.Has(0) {
		t.Fatal("Retain took what is in use")
	}
	if has(t, s, ref, p) {
		t.Error("block stays")
	}
	f.Close()
	if u := s.Usage(); u.Flats != 0 || u.FlatBytes != 0 {
		t.Errorf("usage %+v after the last user left", u)
	}
	if names, _ := os.ReadDir(filepath.Join(root, "flat")); len(names) != 0 {
		t.Errorf("%d flat files stay", len(names))
	}
}

// What is in flight when a blob dies comes after Retain, or beside it, and does not
// stay; neither does a flat file that is closed, or even opened, afterwards.
func TestPutAfterRetain(t *testing.T) {
	root := t.TempDir()
	var dead atomic.Bool
	onlyA, pa := testBlock("a", 0, 5000)
	s := open(t, root, Options{Live: func(d digest.Digest) bool { return d != onlyA.Blob || !dead.Load() }})
	shared, ps := testBlock("b", 1, 5000)
	put(t, s, shared, ps)
	var wg sync.WaitGroup
	begun := make(chan struct{})
	for w := range 4 {
		wg.Go(func() {
			for i := range 100 {
				ref, p := testBlock("a", w*100+i, 5000)
				if err := s.Put(t.Context(), ref, p); err != nil {
					t.Error(err)
				}
				of := shared
				of.Blob = onlyA.Blob // a has it, too
				if err := s.Put(t.Context(), of, ps); err != nil {
					t.Error(err)
				}
				if w == 0 && i == 50 {
					close(begun)
				}
			}
		})
	}
	<-begun
	f, data := testFlat(t, s, "a", 3)
	dead.Store(true)
	retain(t, s, "b")
	wg.Wait()
	section := onlyA
	section.Number = block.Section
	put(t, s, section, pa)
	put(t, s, onlyA, pa)
	if err := f.Write(0, data[0]); err != nil {
		t.Fatal(err)
	}
	f.Close()
	f, _ = testFlat(t, s, "a", 3)
	f.Close()
	if u := s.Usage(); u.Blocks != 1 || u.Sections != 0 || u.Flats != 0 || u.BlockBytes != onDisk(5000) {
		t.Errorf("usage %+v, want the block of b", u)
	}
	if n := diskBytes(t, root, "blocks") + diskBytes(t, root, "sections") + diskBytes(t, root, "flat"); n != onDisk(5000) {
		t.Errorf("%d bytes on disk", n)
	}
	if names, _ := os.ReadDir(filepath.Join(root, "blobs")); len(names) != 1 {
		t.Errorf("%d lists, want that of b", len(names))
	}
	if !has(t, s, shared, ps) {
		t.Error("what b wants is gone")
	}
	dead.Store(false)
	put(t, s, onlyA, pa)
	if !has(t, s, onlyA, pa) {
		t.Error("a blob that is wanted again is not kept")
	}
}
