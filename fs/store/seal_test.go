package store

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/containerd/errdefs"
)

func sealed(t *testing.T, root, seed string, blocks int) (path string, data [][]byte) {
	t.Helper()
	s := open(t, root, Options{})
	defer s.Close()
	f, data := testFlat(t, s, seed, blocks)
	write(t, f, data)
	if err := f.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.Seal(t.Context()); err != nil {
		t.Fatal("second Seal:", err)
	}
	path, ok := f.Local()
	if !ok {
		t.Fatal("not local after Seal")
	}
	return path, data
}

// RR-06: a seal counts for the very file that was synced, as it was then.
func TestRR06_FalseSealsAreNotTrusted(t *testing.T) {
	shell := func(script string) func(string) error {
		return func(path string) error {
			out, err := exec.Command("sh", "-ec", script, "sh", path, path+sealSuffix).CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%s: %w: %s", script, err, out)
			}
			return err
		}
	}
	for name, damage := range map[string]func(path string) error{
		"marker cut": shell(`truncate -s50 "$2"`),
		"marker flipped": func(path string) error {
			p, err := os.ReadFile(path + sealSuffix)
			if err != nil {
				return err
			}
			p[len(p)/2] ^= 1
			return os.WriteFile(path+sealSuffix, p, 0o600)
		},
		"marker gone":         shell(`rm "$2"`),
		"data gone":           shell(`rm "$1"`),
		"data short":          shell(`truncate -s-1 "$1"`),
		"data punched":        shell(`fallocate -p -o0 -l4096 "$1"; touch -d@1000 "$1"`),
		"older copy restored": shell(`cp -a "$1" "$1x"; mv "$1x" "$1"`),
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			path, data := sealed(t, root, "a", 3)
			if err := damage(path); err != nil {
				t.Fatal(err)
			}
			s := open(t, root, Options{})
			if u := s.Usage(); u.Flats != 0 {
				t.Errorf("usage %+v: the file is trusted", u)
			}
			f, _ := testFlat(t, s, "a", 3)
			if f.Has(0) || f.Sealed() {
				t.Fatal("a block of it is trusted")
			}
			write(t, f, data)
			if err := f.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
			if again, _ := f.Local(); again == path {
				t.Error("a name was used twice")
			}
		})
	}
}

// A sealed file may be the device of a mount: it is never changed, and what
// has it open keeps it when it is dropped.
func TestSealedFileIsNeverTouched(t *testing.T) {
	root := t.TempDir()
	path, data := sealed(t, root, "a", 5)
	s := open(t, root, Options{MaxFlatBytes: 8 * testBlockSize})
	f, _ := testFlat(t, s, "a", 5)
	device, err := os.Open(path) // as the kernel has it
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	g, more := testFlat(t, s, "b", 8)
	for range 3 {
		for i, p := range more {
			if err := g.Write(i, p); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n, _ := g.Present(); n > 3 {
		t.Errorf("%d blocks beside 5 sealed ones with room for 8", n)
	}
	same := func() {
		t.Helper()
		got := make([]byte, f.Length())
		if _, err := device.ReadAt(got, 0); err != nil || !bytes.Equal(got, bytes.Join(data, nil)) {
			t.Error("the sealed file changed", err)
		}
	}
	same()
	if _, ok := f.Local(); !ok {
		t.Error("a sealed file in use was dropped")
	}
	f.Close()
	write(t, g, more)
	if _, err := os.Stat(path); err == nil {
		t.Error("a sealed file without users was not dropped")
	}
	same()
	retain(t, s)
	same()
}

// The same file from complete to sealed and under pressure, in one process.
func TestSealStopsEviction(t *testing.T) {
	s := open(t, t.TempDir(), Options{MaxFlatBytes: 8 * testBlockSize})
	f, data := testFlat(t, s, "a", 5)
	write(t, f, data)
	if err := f.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	path, _ := f.Local()
	g, more := testFlat(t, s, "b", 8)
	for range 3 {
		write(t, g, more)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, bytes.Join(data, nil)) {
		t.Error("the sealed file changed", err)
	}
}

func TestSealLeavesRoom(t *testing.T) {
	s := open(t, t.TempDir(), Options{MaxFlatBytes: 8 * testBlockSize})
	f, data := testFlat(t, s, "a", 4)
	write(t, f, data)
	if err := f.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	g, data := testFlat(t, s, "b", 3)
	write(t, g, data)
	if err := g.Seal(t.Context()); !errdefs.IsResourceExhausted(err) {
		t.Fatalf("sealed files may take all room: %v", err)
	}
	f.Close()
	if err := g.Seal(t.Context()); err != nil {
		t.Fatal("sealed files without users count:", err)
	}
	if u := s.Usage(); u.SealedBytes != 7*testBlockSize || u.FlatBytes != u.SealedBytes {
		t.Errorf("usage %+v", u)
	}
}

func TestUnsealedIsRebuilt(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, Options{})
	f, data := testFlat(t, s, "a", 3)
	write(t, f, data)
	s.Close()
	s = open(t, root, Options{})
	f, _ = testFlat(t, s, "a", 3)
	if n, _ := f.Present(); n != 0 {
		t.Errorf("%d blocks of an unsealed file are trusted after restart", n)
	}
}
