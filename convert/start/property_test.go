package start_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/faasnet/faasnet/convert/start"
	"github.com/faasnet/faasnet/fs/index"
	"github.com/faasnet/faasnet/fs/index/indextest"
)

// stacks is how many random images TestChangesNothing makes;
// FAASNET_START_STACKS overrides it, FAASNET_START_SEED where they start.
const stacks = 40

func env(name string, value uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return value
}

// TestChangesNothing: whatever the image and the record, what containerd unpacks
// and overlayfs shows is the same with the start layer and without.
func TestChangesNothing(t *testing.T) {
	seed := env("FAASNET_START_SEED", 1)
	made, files := 0, 0
	for i := range env("FAASNET_START_STACKS", stacks) {
		s := seed + i
		if t.Run(fmt.Sprintf("FAASNET_START_SEED=%d", s), func(t *testing.T) {
			r := rand.New(rand.NewPCG(s, 1))
			layers := randomLayers(r)
			below, merged := trees(t, layers...)
			named := randomRecord(r, merged)
			p := start.New(merged, named)
			if err := p.Settle(t.Context(), below, merged); err != nil {
				t.Fatal(err)
			}
			if n := p.Files() + len(p.Unknown) + p.Little + p.Empty + p.Again + p.Other; n != len(named) {
				t.Errorf("of %d paths %d are counted: %+v", len(named), n, p)
			}
			top := write(t, p, merged, layers...)
			if again := write(t, p, merged, layers...); !bytes.Equal(top, again) {
				t.Error("the same plan gives other bytes")
			}
			if changesNothing(t, top, layers...) {
				made++
				files += p.Files()
			}
		}); t.Failed() {
			break
		}
	}
	t.Logf("%d images that containerd unpacks, from FAASNET_START_SEED=%d, %d files in start layers", made, seed, files)
	if files == 0 {
		t.Error("no start layer had a file")
	}
}

// randomRecord names most files of a tree in any order, and some that it has
// not.
func randomRecord(r *rand.Rand, tree *index.Tree) start.Record {
	names := []string{"none"}
	_ = tree.Walk(func(f index.File) error {
		if r.IntN(4) > 0 {
			names = append(names, f.Path)
		}
		return nil
	})
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return record(names...)
}

// randomLayers makes layers whose entries meet each other, without those that
// no unpacker takes.
func randomLayers(r *rand.Rand) [][]byte {
	layers := make([][]byte, 1+r.IntN(5))
	for i := range layers {
		var l indextest.Tar
		for range 2 + r.IntN(25) {
			before := slices.Clone(l.Bytes()[:l.Len()])
			l.Add(randomEntry(r, i))
			if _, err := index.FromTar(bytes.NewReader(l.Bytes())); err != nil {
				l = indextest.Tar{}
				l.Raw(before)
			}
		}
		layers[i] = l.Bytes()
	}
	return layers
}

func randomEntry(r *rand.Rand, layer int) hdr {
	name := func() string {
		p := ""
		for range 1 + r.IntN(3) {
			p = path.Join(p, string(rune('a'+r.IntN(4))))
		}
		return p
	}
	h := hdr{
		Name: name(), Mode: 1 + int64(r.IntN(0o7777)), UID: int64(r.IntN(3)) << (r.IntN(2) * 29), GID: int64(r.IntN(3)),
		Mtime: time.Unix(1e9+int64(layer), int64(r.IntN(3))*333333333),
	}
	if r.IntN(3) == 0 {
		h.Xattrs = map[string]string{"user." + string(rune('a'+r.IntN(3))): fmt.Sprint("\x00=", r.IntN(9)), "security.x": ""}
	}
	switch r.IntN(12) {
	case 0, 1:
		h.Type, h.Mode = tar.TypeDir, h.Mode&^0o2000|1
	case 2:
		h.Name = path.Join(path.Dir(h.Name), ".wh."+path.Base(h.Name))
	case 3, 4, 5:
		h.Type, h.Link = tar.TypeLink, name()
	case 6:
		h.Name = path.Join(h.Name, ".wh..wh..opq")
	case 7:
		h.Type, h.Link, h.Xattrs = tar.TypeSymlink, name(), nil
	case 8:
		h.Type = tar.TypeFifo
	default:
		h.Body = fmt.Sprintf("layer %d %s %0*d", layer, h.Name, r.IntN(1500)+1, 0)
	}
	return h
}
