package index_test

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

	"github.com/faasnet/faasnet/fs/index"
	"github.com/faasnet/faasnet/fs/index/indextest"
)

// stacks is how many random stacks the property tests make; FAASNET_INDEX_STACKS
// overrides it, FAASNET_INDEX_SEED where they start.
const stacks = 30

func env(name string, value uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return value
}

// TestMergeIsOverlayfs stacks random layers and compares their merged index
// with the overlayfs mount of what containerd unpacks them to.
func TestMergeIsOverlayfs(t *testing.T) {
	seed := env("FAASNET_INDEX_SEED", 1)
	made := 0
	for i := range env("FAASNET_INDEX_STACKS", stacks) {
		s := seed + i
		if t.Run(fmt.Sprintf("FAASNET_INDEX_SEED=%d", s), func(t *testing.T) {
			layers := randomStack(t, s, true)
			dirs, err := indextest.Unpack(t, layers...)
			if err != nil {
				return // a layer alone is fine, but not on these parents
			}
			made++
			o := indextest.Options{SkipMtime: implicit(t, layers...), Orphans: true}
			indextest.Compare(t, indextest.Overlay(t, dirs...), lazy(t, layers...), o)
		}); t.Failed() {
			break
		}
	}
	t.Logf("%d stacks that containerd unpacks, from FAASNET_INDEX_SEED=%d", made, seed)
	if made == 0 {
		t.Error("containerd unpacked no stack")
	}
}

// TestMergeOnLower merges only the upper part of random stacks, and stacks it
// with overlayfs on the lower part: directories of the host, and a mounted
// index.
func TestMergeOnLower(t *testing.T) {
	seed := env("FAASNET_INDEX_SEED", 1)
	made := 0
	for i := range env("FAASNET_INDEX_STACKS", stacks) {
		s := seed + i
		if t.Run(fmt.Sprintf("FAASNET_INDEX_SEED=%d", s), func(t *testing.T) {
			layers := randomStack(t, s, false)
			dirs, err := indextest.Unpack(t, layers...)
			if err != nil {
				return
			}
			made++
			k := 1 + int(s%uint64(len(layers)-1))
			trees := fromTar(t, layers...)
			bottom, err := index.Merge(trees[:k], nil)
			if err != nil {
				t.Fatal(err)
			}
			lower := slices.Clone(dirs[:k])
			slices.Reverse(lower)
			mounted := mount(t, bottom, layers[:k])
			want := indextest.Overlay(t, dirs...)
			o := indextest.Options{SkipMtime: implicit(t, layers...), Orphans: true}
			for name, c := range map[string]struct {
				lower index.Lower
				dirs  []string
			}{"host": {index.Dirs(lower), dirs[:k]}, "tree": {bottom, []string{mounted}}, "mounted": {index.Dirs{mounted}, []string{mounted}}} {
				top, err := index.Merge(trees[k:], c.lower)
				if err != nil {
					t.Fatal(err)
				}
				if name == "tree" {
					sameImage(t, layers, []*index.Tree{bottom, top}, trees)
				}
				got := indextest.Overlay(t, append(slices.Clone(c.dirs), mount(t, top, layers[k:]))...)
				// Strict: no orphan whiteout may show, except the host's own.
				o.OrphansInGot = name == "host"
				indextest.Compare(t, want, got, o)
				if t.Failed() {
					t.Fatalf("%d of %d layers on %s", len(layers)-k, len(layers), name)
				}
			}
		}); t.Failed() {
			break
		}
	}
	t.Logf("%d stacks that containerd unpacks, from FAASNET_INDEX_SEED=%d", made, seed)
	if made == 0 {
		t.Error("containerd unpacked no stack")
	}
}

// sameImage checks that two ways to merge layers give the same bytes.
func sameImage(t *testing.T, layers [][]byte, a, b []*index.Tree) {
	t.Helper()
	var images [2][]byte
	for i, trees := range [][]*index.Tree{a, b} {
		m, err := index.Merge(trees, nil)
		if err != nil {
			t.Fatal(err)
		}
		if images[i], err = m.Encode(lengths(layers...)); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(images[0], images[1]) {
		t.Error("a merge of merges differs from the merge of all")
	}
}

func mount(t *testing.T, tree *index.Tree, layers [][]byte) string {
	t.Helper()
	img, err := tree.Encode(lengths(layers...))
	if err != nil {
		t.Fatal(err)
	}
	if err := index.Check(img, lengths(layers...)); err != nil {
		t.Fatal(err)
	}
	return indextest.EROFS(t, img, indextest.Files(t, layers...)...)
}

// randomStack makes 2-8 layers. Some of their entries contradict each other:
// those that FromTar refuses must be refused by containerd, and are dropped.
func randomStack(t *testing.T, seed uint64, all bool) [][]byte {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	layers := make([][]byte, 2+r.IntN(7))
	for i := range layers {
		var l indextest.Tar
		for range 1 + r.IntN(20) {
			before := slices.Clone(l.Bytes()[:l.Len()])
			l.Add(randomEntry(r, i, all))
			if _, err := index.FromTar(bytes.NewReader(l.Bytes())); err == nil {
				continue
			}
			if r.IntN(20) == 0 {
				refused(t, l.Bytes())
			}
			l = indextest.Tar{}
			l.Raw(before)
		}
		layers[i] = l.Bytes()
	}
	return layers
}

// randomEntry makes an entry. Names come from a small set, so that layers and
// entries meet. Without all there is nothing for which containerd looks at
// directories that are hidden in the merged tree: no links to directories, no
// opaque ones.
func randomEntry(r *rand.Rand, layer int, all bool) hdr {
	name := func() string {
		p := ""
		for range 1 + r.IntN(3) {
			p = path.Join(p, string(rune('a'+r.IntN(3))))
		}
		return p
	}
	h := hdr{Name: name(), Mode: int64(r.IntN(0o10000)), UID: int64(r.IntN(3)), GID: int64(r.IntN(3)), Mtime: time.Unix(1e9+int64(layer), int64(r.IntN(3)))}
	if h.Mode == 0 {
		h.Mode = -1
	}
	if r.IntN(4) == 0 {
		h.Xattrs = map[string]string{"user." + string(rune('a'+r.IntN(3))): fmt.Sprint(r.IntN(9)), "security.x": ""}
	}
	kinds := 10
	if all {
		kinds = 12
	}
	switch r.IntN(kinds) {
	case 0, 1, 2:
		// Without set-group-ID: see TestImplicitTakesGroup.
		h.Type, h.Mode = tar.TypeDir, h.Mode&^0o2000|1
	case 3:
		h.Name = path.Join(path.Dir(h.Name), ".wh."+path.Base(h.Name))
	case 4:
		h.Type, h.Link = tar.TypeLink, name()
	case 5:
		h.Type = tar.TypeFifo
	case 6:
		h.Type, h.Major, h.Minor = tar.TypeChar, int64(r.IntN(2)), int64(r.IntN(2)*300)
	case 10:
		h.Name = path.Join(h.Name, ".wh..wh..opq")
	case 11:
		h.Type, h.Link, h.Xattrs = tar.TypeSymlink, name(), nil
		if r.IntN(2) == 0 {
			h.Link = "/" + h.Link
		}
	default:
		h.Body = fmt.Sprintf("layer %d %s %0*d", layer, h.Name, r.IntN(1500)+1, 0)
	}
	return h
}
