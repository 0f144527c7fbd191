package store

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
)

// GD-03: nobody who holds pins ever sees a hole, whatever is evicted, and what
// is on disk stays within the limit.
func TestGD03_PinnedBlocksAreNeverHoles(t *testing.T) {
	const blocks, layers, limit = 32, 3, 24 * testBlockSize
	root := t.TempDir()
	s := open(t, root, Options{MaxFlatBytes: limit, MaxOpenFlat: 2})
	var flats [layers]*Flat
	var data [layers][][]byte
	for i := range flats {
		flats[i], data[i] = testFlat(t, s, string(rune('a'+i)), blocks)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(g)))
			buf := make([]byte, 3*testBlockSize)
			for range 500 {
				l := rnd.IntN(layers)
				first := rnd.IntN(blocks)
				last := min(blocks-1, first+rnd.IntN(3))
				pins, ok, err := flats[l].Pin(first, last)
				if err != nil {
					t.Error(err)
					return
				}
				if !ok {
					for i := first; i <= last; i++ {
						if err := flats[l].Write(i, data[l][i]); err != nil && !errdefs.IsResourceExhausted(err) {
							t.Error(err)
							return
						}
					}
					continue
				}
				want := bytes.Join(data[l][first:last+1], nil)
				got := buf[:len(want)]
				if _, err := pins.File().ReadAt(got, int64(first)*testBlockSize); err != nil || !bytes.Equal(got, want) {
					t.Errorf("layer %d blocks %d to %d: wrong bytes under pins, %v", l, first, last, err)
				}
				pins.Release()
			}
		})
	}
	wg.Wait()
	if s.metrics.evictedFlat.Load() == 0 {
		t.Error("nothing was evicted")
	}
	present := 0
	for _, f := range flats {
		n, _ := f.Present()
		present += n
	}
	if u := s.Usage(); u.FlatBytes > limit || u.FlatBytes != int64(present)*testBlockSize {
		t.Errorf("usage %d, %d blocks present, limit %d", u.FlatBytes, present, limit)
	}
	// A file system takes some blocks of its own for a file in many pieces.
	if n := allocated(t, filepath.Join(root, "flat")); n > limit+layers*8*4096 {
		t.Errorf("%d bytes on disk, limit %d", n, limit)
	}
	if n := s.flats.opened.Load(); n > 3 {
		t.Errorf("%d descriptors open, want at most 3", n)
	}
}

func TestEvictionOrder(t *testing.T) {
	s := open(t, t.TempDir(), Options{MaxFlatBytes: 8 * testBlockSize})
	idle, data := testFlat(t, s, "idle", 5)
	write(t, idle, data)
	idle.Close()
	f, data := testFlat(t, s, "a", 6)
	write(t, f, data) // drops the idle file as a whole, before any block of this one
	if n, of := f.Present(); n != of || s.Usage().Flats != 1 {
		t.Fatalf("%d of %d blocks, %d files", n, of, s.Usage().Flats)
	}
	pins, ok, err := f.Pin(0, 5)
	if err != nil || !ok {
		t.Fatal("cannot pin", err)
	}
	g, data := testFlat(t, s, "b", 6)
	for i, p := range data {
		err := g.Write(i, p)
		if i < 2 && err != nil {
			t.Fatal(err)
		}
	}
	if n, of := f.Present(); n != of {
		t.Errorf("%d of %d pinned blocks are present", n, of)
	}
	pins.Release()
	write(t, g, data)
	if n, _ := f.Present(); n == 6 {
		t.Error("no block was evicted once they were released")
	}
}

// What was used since the evictor last came by outlives what was not.
func TestRecentBlocksStay(t *testing.T) {
	s := open(t, t.TempDir(), Options{MaxFlatBytes: 8 * testBlockSize})
	f, data := testFlat(t, s, "a", 40)
	write(t, f, data[:9]) // the first eviction takes the mark from all and drops block 0
	pins, _, err := f.Pin(3, 3)
	if err != nil {
		t.Fatal(err)
	}
	pins.Release()
	for i := 9; i < 15; i++ {
		if err := f.Write(i, data[i]); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 15 {
		if want := i == 3 || i >= 8; f.Has(i) != want {
			t.Errorf("block %d is there: %v, want %v", i, !want, want)
		}
	}
}

// A file that is not the one we made is noticed when it is opened again.
func TestReplacedFileIsNoticed(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, Options{MaxOpenFlat: 1})
	f, data := testFlat(t, s, "a", 2)
	write(t, f, data)
	g, other := testFlat(t, s, "b", 2)
	write(t, g, other) // its descriptor takes the place of the first one's
	paths, err := filepath.Glob(filepath.Join(root, "flat", "*"))
	if err != nil || len(paths) != 2 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		fi, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+".new", make([]byte, fi.Size()), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok, err := f.Pin(0, 1); ok || !errdefs.IsDataLoss(err) {
		t.Errorf("pinned a file of zeros: %v, %v", ok, err)
	}
}

// When all room is pinned a write is refused, and works again afterwards.
func TestWriteWithoutRoom(t *testing.T) {
	s := open(t, t.TempDir(), Options{MaxFlatBytes: 2 * testBlockSize})
	f, data := testFlat(t, s, "a", 4)
	write(t, f, data[:2])
	pins, _, err := f.Pin(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Write(2, data[2]); !errdefs.IsResourceExhausted(err) {
		t.Fatalf("write without room: %v", err)
	}
	if f.Has(2) || s.Usage().FlatBytes != 2*testBlockSize {
		t.Error("the refused block left something")
	}
	pins.Release()
	if err := f.Write(2, data[2]); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []struct{ i, n int }{{-1, testBlockSize}, {4, testBlockSize}, {1, 5}, {3, testBlockSize}} {
		if err := f.Write(bad.i, make([]byte, bad.n)); err == nil {
			t.Errorf("%d bytes written as block %d", bad.n, bad.i)
		}
	}
}

// MC-03: layers that are open do not cost a descriptor each.
func TestMC03_DescriptorsAreBounded(t *testing.T) {
	s := open(t, t.TempDir(), Options{MaxOpenFlat: 8})
	before := descriptors(t)
	for i := range 100 {
		f, data := testFlat(t, s, string(rune('A'+i)), 2)
		write(t, f, data)
		for range 2 {
			pins, ok, err := f.Pin(0, 1)
			if !ok || err != nil {
				t.Fatal("cannot pin", err)
			}
			pins.Release()
		}
	}
	if n := descriptors(t) - before; n > 9 {
		t.Errorf("%d descriptors for 100 layers, want at most 9", n)
	}
}

func write(t *testing.T, f *Flat, data [][]byte) {
	t.Helper()
	for i, p := range data {
		if err := f.Write(i, p); err != nil {
			t.Fatal(err)
		}
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

func TestFlatRefuses(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	d := digest.FromString("a")
	for _, id := range []FlatID{
		{Blob: "sha256:../x", BlockSize: 4096, Length: 1},
		{Blob: d, BlockSize: 0, Length: 1},
		{Blob: d, BlockSize: 4097, Length: 1},
		{Blob: d, BlockSize: 4096, Length: -1},
		{Blob: d, BlockSize: 4096, Length: 1 << 40},
	} {
		if f, err := s.Flat(id); err == nil {
			f.Close()
			t.Errorf("opened %+v", id)
		}
	}
}
