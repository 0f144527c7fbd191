package store

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
)

const (
	childRoot   = "FAASNET_STORE_CHILD" // the store that a child of this test works on
	childSeed   = "FAASNET_STORE_SEED"
	crashLayers = 4
	crashBlocks = 12
)

func layerName(l int) string { return fmt.Sprintf("layer %d", l) }

// TestCrashChild is the child: it uses the store until it is killed, and says
// so a line at a time.
func TestCrashChild(t *testing.T) {
	root := os.Getenv(childRoot)
	if root == "" {
		return // runs as a child of TestRR06_Kill only
	}
	var seed uint64
	if _, err := fmt.Sscan(os.Getenv(childSeed), &seed); err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(seed, 0))
	s, err := Open(root, Options{MaxBytes: 30 * testBlockSize, MaxFlatBytes: 30 * testBlockSize})
	if err != nil {
		t.Fatal(err)
	}
	for {
		l := rnd.IntN(crashLayers)
		f, data := testFlat(t, s, layerName(l), crashBlocks)
		for range crashBlocks {
			i := rnd.IntN(crashBlocks)
			ref, p := testBlock(layerName(l), i, len(data[i]))
			if err := s.Put(context.Background(), ref, p); err != nil {
				t.Fatal(err)
			}
			has(t, s, ref, p)
			fmt.Println("put")
		}
		if rnd.IntN(2) == 0 {
			write(t, f, data)
			fmt.Println("written")
			_ = f.Seal(t.Context()) // may have lost blocks to eviction, or find no room
			fmt.Println("sealed")
		}
		f.Close()
		if rnd.IntN(4) == 0 {
			retain(t, s, layerName(0), layerName(1), layerName(rnd.IntN(crashLayers)))
			fmt.Println("retained")
		}
	}
}

// RR-06: after kill -9 at 50 random points, lost writes and restored older
// copies, every byte that the store gives is right, and what it has is used.
func TestRR06_Kill(t *testing.T) {
	rounds := 50
	if testing.Short() {
		rounds = 10
	}
	root := t.TempDir()
	var kept, sealedFiles int64
	for round := range rounds {
		rnd := rand.New(rand.NewPCG(uint64(round), 1))
		killChild(t, root, round, rnd.IntN(60))
		if round%3 == 1 {
			loseWrites(t, root, rnd)
		}
		if round%3 == 2 {
			restoreCopies(t, root)
		}
		u := checkAll(t, root)
		kept += int64(u.Blocks)
		sealedFiles += u.SealedBytes
	}
	if kept == 0 || sealedFiles == 0 {
		t.Errorf("%d blocks and %d sealed bytes survived in all: the test shows nothing", kept, sealedFiles)
	}
}

// killChild runs a child on the store and kills it after it said that many lines.
func killChild(t *testing.T, root string, seed, lines int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrashChild$")
	cmd.Env = append(os.Environ(), childRoot+"="+root, fmt.Sprintf("%s=%d", childSeed, seed))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said []string
	for sc := bufio.NewScanner(out); sc.Scan(); {
		said = append(said, sc.Text())
		if strings.Contains(sc.Text(), "FAIL") || len(said) > lines {
			break
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if len(said) <= lines {
		t.Fatalf("the child ended by itself: %q", said)
	}
}

// loseWrites damages some files as a power failure may: cut, zeros, noise.
func loseWrites(t *testing.T, root string, rnd *rand.Rand) {
	t.Helper()
	for _, dir := range []string{"blocks", "blobs"} {
		paths, err := filepath.Glob(filepath.Join(root, dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			p, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			switch rnd.IntN(8) {
			case 0:
				p = p[:rnd.IntN(len(p)+1)]
			case 1:
				clear(p[rnd.IntN(len(p)+1):])
			case 2:
				if len(p) > 0 {
					p[rnd.IntN(len(p))] ^= 1
				}
			default:
				continue
			}
			if err := os.WriteFile(path, p, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// restoreCopies puts a zeroed copy in the place of each flat file, with the
// size and times of the original, under the seal of the original: the record is
// newer than the data.
func restoreCopies(t *testing.T, root string) {
	t.Helper()
	seals, err := filepath.Glob(filepath.Join(root, "flat", "*"+sealSuffix))
	if err != nil {
		t.Fatal(err)
	}
	for _, seal := range seals {
		path := strings.TrimSuffix(seal, sealSuffix)
		fi, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+".old", make([]byte, fi.Size()), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".old", path); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, fi.ModTime(), fi.ModTime()); err != nil {
			t.Fatal(err)
		}
	}
}

// checkAll opens the store and reads everything that it says it has.
func checkAll(t *testing.T, root string) Usage {
	t.Helper()
	s := open(t, root, Options{})
	defer s.Close()
	u := s.Usage()
	for l := range crashLayers {
		f, data := testFlat(t, s, layerName(l), crashBlocks)
		for i, p := range data {
			ref, p := testBlock(layerName(l), i, len(p))
			has(t, s, ref, p)
		}
		if pins, ok, err := f.Pin(0, crashBlocks-1); err != nil {
			t.Error(err)
		} else if ok {
			got := make([]byte, f.Length())
			if _, err := pins.File().ReadAt(got, 0); err != nil || !bytes.Equal(got, bytes.Join(data, nil)) {
				t.Errorf("layer %d: wrong bytes in a trusted file, %v", l, err)
			}
			pins.Release()
		}
		f.Close()
	}
	// What is damaged was dropped on the way: all that is left is right.
	left := s.Usage()
	if n := diskBytes(t, root, "blocks"); n != left.BlockBytes {
		t.Errorf("%d bytes on disk, %d in the index", n, left.BlockBytes)
	}
	if err := s.Retain(func(digest.Digest) bool { return true }); err != nil {
		t.Error(err)
	}
	return left.plus(u)
}

// plus keeps the sealed bytes that were trusted at Open.
func (u Usage) plus(at Usage) Usage {
	u.SealedBytes = at.SealedBytes
	return u
}
