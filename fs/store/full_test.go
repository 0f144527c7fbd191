package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"
)

// tmpfs mounts a small file system and returns its root.
func tmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Fatal("this test needs root:", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill writes a file that takes what is left of the disk.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for chunk := make([]byte, 4096); ; {
		if _, err := f.Write(chunk); errors.Is(err, unix.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// GD-04: a full disk is a clear error, nothing is half written, and everything
// works again when there is space.
func TestGD04_DiskFull(t *testing.T) {
	const size = 256 << 10
	dir := tmpfs(t, "size=4m")
	s := open(t, filepath.Join(dir, "store"), Options{})
	f, data := testFlat(t, s, "a", 40)
	write(t, f, data[:10])
	first, p0 := testBlock("x", 0, size)
	put(t, s, first, p0)
	fill(t, filepath.Join(dir, "stranger"))
	ctx := context.Background()

	// Our own blocks make room once; when none are left it is an error.
	full := 0
	for i := 1; i < 20; i++ {
		ref, p := testBlock("x", i, 2*size)
		if err := s.Put(ctx, ref, p); errdefs.IsResourceExhausted(err) {
			full++
			if has(t, s, ref, p) {
				t.Errorf("block %d is there after an error", i)
			}
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for i := 10; i < len(data); i++ {
		if err := f.Write(i, data[i]); errdefs.IsResourceExhausted(err) {
			full++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if full == 0 {
		t.Fatal("the disk was never full")
	}
	for i := range data {
		pins, ok, err := f.Pin(i, i)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			continue
		}
		got := make([]byte, len(data[i]))
		if _, err := pins.File().ReadAt(got, int64(i)*testBlockSize); err != nil || string(got) != string(data[i]) {
			t.Errorf("block %d is present and wrong: %v", i, err)
		}
		pins.Release()
	}
	if names, _ := os.ReadDir(filepath.Join(dir, "store", "tmp")); len(names) != 0 {
		t.Errorf("%d temporary files stay", len(names))
	}

	if err := os.Remove(filepath.Join(dir, "stranger")); err != nil {
		t.Fatal(err)
	}
	ref, p := testBlock("x", 1, 2*size)
	put(t, s, ref, p)
	if !has(t, s, ref, p) {
		t.Error("no block is kept after space returned")
	}
	write(t, f, data)
	fill(t, filepath.Join(dir, "stranger"))
	if err := f.Seal(ctx); !errdefs.IsResourceExhausted(err) || f.Sealed() {
		t.Errorf("seal on a full disk: %v, sealed %v", err, f.Sealed())
	}
	if err := os.Remove(filepath.Join(dir, "stranger")); err != nil {
		t.Fatal(err)
	}
	if err := f.Seal(ctx); err != nil || !f.Sealed() {
		t.Errorf("seal after space returned: %v", err)
	}
}

// What a full disk cut short takes no room.
func TestGD04_NoPartOfABlockStays(t *testing.T) {
	const size, blocks = 256 << 10, 32
	dir := tmpfs(t, "size=4m")
	s := open(t, filepath.Join(dir, "store"), Options{})
	f, err := s.Flat(FlatID{Blob: digest.FromString("a"), BlockSize: size, Length: size * blocks})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.WriteFile(filepath.Join(dir, "stranger"), make([]byte, 100<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	// Pinned, so that nothing makes room.
	var all []Pins
	for i := 0; err == nil && i < blocks; i++ {
		if err = f.Write(i, make([]byte, size)); err == nil {
			pins, _, err := f.Pin(i, i)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, pins)
		}
	}
	if !errdefs.IsResourceExhausted(err) {
		t.Fatalf("the disk was never full: %v", err)
	}
	want := int64(len(all)) * size
	if n := allocated(t, filepath.Join(dir, "store", "flat")); n != want || s.Usage().FlatBytes != want {
		t.Errorf("%d bytes on disk and %d counted for %d blocks", n, s.Usage().FlatBytes, len(all))
	}
	for _, p := range all {
		p.Release()
	}
}

// A disk without inodes refuses the file of a layer, clearly.
func TestNoInodes(t *testing.T) {
	dir := tmpfs(t, "size=4m,nr_inodes=20")
	s := open(t, filepath.Join(dir, "store"), Options{})
	var err error
	for i := 0; i < 30 && err == nil; i++ {
		var f *Flat
		f, err = s.Flat(FlatID{Blob: digest.FromString(string(rune(i))), BlockSize: 4096, Length: 5000})
		if f != nil {
			defer f.Close()
		}
	}
	if !errdefs.IsResourceExhausted(err) {
		t.Errorf("%v, want resource exhausted", err)
	}
}
