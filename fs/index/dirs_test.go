package index_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/pkg/archive"

	"github.com/faasnet/faasnet/fs/index"
	"github.com/faasnet/faasnet/fs/index/indextest"
)

func TestCF04_ImplicitParents(t *testing.T) {
	p := dir("p")
	p.Mode, p.UID, p.GID = 0o700, 5, 6
	p.Xattrs = map[string]string{"user.k": "v"}
	q := dir("q/")
	q.Mode, q.Mtime = 0o711, time.Unix(1234567890, 0)
	d := same(t, layer(p, file("p/a", "")), layer(file("p/b", ""), file("x/y/z", "")))
	if st := lstat(t, d, "p"); st.Mode&0o7777 != 0o700 || st.Uid != 5 || st.Gid != 6 {
		t.Errorf("p: %+v", st)
	}
	for _, name := range []string{"x", "x/y"} {
		if st := lstat(t, d, name); st.Mode&0o7777 != 0o755 || st.Uid != 0 || st.Gid != 0 {
			t.Errorf("%s: %+v", name, st)
		}
	}
	d = same(t, layer(file("q/r", ""), q))
	if st := lstat(t, d, "q"); st.Mode&0o7777 != 0o711 || st.Mtim.Sec != 1234567890 || st.Mtim.Nsec != 0 {
		t.Errorf("q: %+v", st)
	}
}

func TestImplicitParentsOfLowerLayers(t *testing.T) {
	mode := func(name string, mode int64) hdr {
		h := dir(name)
		h.Mode, h.UID = mode, mode
		return h
	}
	sameVisible(t,
		layer(mode("d", 0o701), mode("d/e", 0o702), file("d/e/f", "0"), mode("real", 0o703), slink("l", "real"), file("n", "")),
		layer(hdr{Name: "d/" + ".wh..wh..opq"}),        // hides d/e, which still gives its mode below
		layer(file("d/e/g", "2"), file("l/x", "link")), // l becomes a directory with real's mode
		layer(hdr{Name: ".wh.d"}),
		layer(file("d/h", "4"), file("n/file", "")), // a whiteout, a file: no mode to take
		layer(file("d/i", "5")),
	)
}

func TestImplicitTakesGroup(t *testing.T) {
	d := dir("s")
	d.Mode, d.GID = 0o2775, 42
	w := hdr{Name: "s/.wh.gone", GID: 7}
	sameVisible(t, layer(d, file("s/i/f", ""), w), layer(file("s/j/k/f", "")))
}

func TestCF05_OrphanWhiteouts(t *testing.T) {
	d := sameVisible(t, layer(file("a", "")), layer(file("pure/real", ""), hdr{Name: "pure/.wh.ghost"}, hdr{Name: "no/such/.wh.x"}))
	want := []string{".", "a", "no", "no/such", "pure", "pure/real"}
	var got []string
	err := filepath.WalkDir(d, func(p string, e os.DirEntry, err error) error {
		if err == nil {
			_, err = os.Lstat(p)
		}
		rel, _ := filepath.Rel(d, p)
		got = append(got, rel)
		return err
	})
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, %v", got, err)
	}
}

// sameVisible compares with an overlay mount whose orphan whiteouts, which it lists
// but cannot stat, are left out.
func sameVisible(t *testing.T, layers ...[]byte) string {
	t.Helper()
	dirs, err := indextest.Unpack(t, layers...)
	if err != nil {
		t.Fatal(err)
	}
	got := lazy(t, layers...)
	o := indextest.Options{SkipMtime: implicit(t, layers...), Orphans: true}
	indextest.Compare(t, indextest.Overlay(t, dirs...), got, o)
	return got
}

func TestCF06_TypeChanges(t *testing.T) {
	kinds := map[string][]hdr{
		"file":    {file("x", "file")},
		"dir":     {dir("x"), file("x/child", "c"), dir("x/sub"), file("x/sub/deep", "d")},
		"symlink": {slink("x", "target")},
		"fifo":    {{Name: "x", Type: tar.TypeFifo}},
	}
	for lower := range kinds {
		for upper := range kinds {
			t.Run(lower+" then "+upper, func(t *testing.T) {
				base := append([]hdr{dir("target"), file("target/t", "t")}, kinds[lower]...)
				same(t, layer(base...), layer(kinds[upper]...), layer(file("y", "")))
			})
			t.Run(lower+" then "+upper+" in one layer", func(t *testing.T) {
				one := append([]hdr{dir("target"), file("target/t", "t")}, kinds[lower]...)
				one = append(one, kinds[upper]...)
				// containerd fails on a directory entry that is gone at the end.
				one = slices.DeleteFunc(one, func(h hdr) bool { return h.Name == "x/sub" })
				same(t, layer(one...))
			})
		}
	}
}

func TestOpaqueRoot(t *testing.T) {
	same(t, layer(file("a", "1"), file("d/x", "")), layer(hdr{Name: ".wh..wh..opq"}, file("b", "2"), file("d/y", "")), layer(file("c", "")))
}

func TestCF20_RootEntry(t *testing.T) {
	root := dir("./")
	root.Mode, root.UID = 0o700, 9
	d := same(t, layer(root, file("./a", "")))
	if st := lstat(t, d); st.Mode&0o7777 != 0o755 || st.Uid != 0 {
		t.Errorf("root: %+v", st)
	}
	count := 0
	err := filepath.WalkDir(d, func(string, os.DirEntry, error) error { count++; return nil })
	if count != 2 || err != nil {
		t.Errorf("%d entries, %v", count, err)
	}
}

func TestCF23_PathForms(t *testing.T) {
	same(t, layer(file("./a", "1"), file("/b", "2"), file("c//d", "3"), file("e/../g", "4"), file("./h/./i", "5"),
		file("../../up", "6"), file("slash/", "a file all the same")))
	v7 := new(indextest.Tar).Add(hdr{Name: "v7/", Type: '0', Mode: 0o755}).Bytes()[:512]
	clear(v7[257:]) // no magic: the format of V7
	v7[156] = 0     // whose directories are files with a slash
	indextest.Checksum(v7)
	d := same(t, new(indextest.Tar).Add(file("a", "")).Raw(v7).Add(file("v7/f", "")).Bytes())
	if st := lstat(t, d, "v7"); st.Mode != 0o40755 {
		t.Errorf("v7: %+v", st)
	}
}

func TestCF26_DeletedAndCreatedAgain(t *testing.T) {
	l0 := layer(file("d/old", "o"), file("d/sub/x", "x"), file("keep/y", "y"))
	l1 := layer(hdr{Name: ".wh.d"}, hdr{Name: "keep/.wh.y"})
	l2 := layer(file("d/new", "n"))
	many := [][]byte{l0}
	for i := range 14 {
		many = append(many, l1, layer(file("d/new", "n"), file("keep/y", fmt.Sprint(i))))
	}
	many = append(many, l1, l2)
	// In a layer that is not the lowest a whiteout and what replaces it do not go
	// together in containerd; an opaque directory does.
	two := layer(hdr{Name: "keep/.wh.y"}, dir("d"), hdr{Name: "d/.wh..wh..opq"}, file("d/new", "n"))
	for name, layers := range map[string][][]byte{"2 layers": {l0, two}, "3 layers": {l0, l1, l2}, "30 layers": many} {
		t.Run(name, func(t *testing.T) {
			d := sameVisible(t, layers...)
			if e, err := os.ReadDir(filepath.Join(d, "d")); len(e) != 1 || e[0].Name() != "new" || err != nil {
				t.Errorf("d holds %v, %v", e, err)
			}
			for _, gone := range []string{"d/old", "d/sub", "keep/y"} {
				if _, err := os.Lstat(filepath.Join(d, gone)); !os.IsNotExist(err) {
					t.Errorf("%s: %v", gone, err)
				}
			}
		})
	}
}

func TestDirectoryReplacedInItsLayer(t *testing.T) {
	// containerd sets the times of directories last, and finds them gone.
	refused(t, layer(dir("x"), dir("x/sub"), file("x", "")))
	same(t, layer(dir("x"), file("x", "takes the directory's time")))
	same(t, layer(dir("y"), dir("x"), slink("x", "y")))
	refused(t, layer(file("x", ""), file("x/y", "")))
	same(t, layer(file("x", "")), layer(hdr{Name: ".wh.x"}, file("x", "again")))
	same(t, layer(dir("x"), file("x/old", "")), layer(hdr{Name: ".wh.x"}, dir("x"), file("x/new", ""))) // both show: not opaque
}

// The bottom layer of an image is unpacked where there is nothing to hide:
// whiteouts remove what came before in the same layer.
func TestWhiteoutsInTheBottomLayer(t *testing.T) {
	old := []hdr{file("x", "x"), file("d/f", "f"), file("d/sub/g", "g"), link("h", "d/f")}
	for name, more := range map[string][]hdr{
		"file":                  {{Name: ".wh.x"}, {Name: "d/.wh.f"}},
		"directory":             {{Name: ".wh.d"}},
		"made again":            {{Name: ".wh.d"}, dir("d"), file("d/new", "")},
		"made again, implicit":  {{Name: ".wh.d"}, file("d/sub/new", "")},
		"nothing":               {{Name: ".wh.none"}, {Name: "no/such/.wh.x"}},
		"of nothing, then made": {{Name: ".wh.n"}, file("n/o/p", ""), slink("s", "n/o"), file("s/q", "")},
		"opaque":                {{Name: ".wh.x"}, dir("new"), {Name: "new/.wh..wh..opq"}, file("new/f", "")},
		"twice":                 {{Name: ".wh.x"}, {Name: ".wh.x"}, file("x", "again"), {Name: ".wh.x"}},
	} {
		t.Run(name, func(t *testing.T) {
			bottom, above := layer(append(slices.Clone(old), more...)...), layer(file("x/above", ""), file("d/above", ""))
			root := t.TempDir()
			if _, err := archive.Apply(t.Context(), root, bytes.NewReader(bottom)); err != nil {
				t.Fatal(err)
			}
			skip := indextest.Options{SkipMtime: implicit(t, bottom)}
			indextest.Compare(t, root, lazy(t, bottom), skip)
			upper, err := indextest.Unpack(t, above)
			if err != nil {
				t.Fatal(err)
			}
			skip.SkipMtime = implicit(t, bottom, above)
			indextest.Compare(t, indextest.Overlay(t, root, upper[0]), lazy(t, bottom, above), skip)
		})
	}
	for name, l := range map[string][]byte{
		"directory with an entry": layer(dir("d"), hdr{Name: ".wh.d"}),
		"below a device":          layer(hdr{Name: "c", Type: tar.TypeChar}, file("c/f", "")),
	} {
		if _, err := archive.Apply(t.Context(), t.TempDir(), bytes.NewReader(l)); err == nil {
			t.Errorf("%s: containerd unpacks the layer", name)
		}
		if _, err := index.FromTar(bytes.NewReader(l)); err == nil {
			t.Errorf("%s: FromTar accepts the layer", name)
		}
	}
}

// containerd cannot unpack the second layer's d/e on the first; a merge must
// not fail for that.
func TestImplicitUnderWhiteout(t *testing.T) {
	layers := [][]byte{layer(hdr{Name: ".wh.d"}), layer(file("d/e/f", ""))}
	if _, err := indextest.Unpack(t, layers...); err == nil {
		t.Error("containerd unpacks the layers")
	}
	if st := lstat(t, lazy(t, layers...), "d/e"); st.Mode != 0o40755 {
		t.Errorf("d/e: %+v", st)
	}
}

func TestSE01_PathsStayInside(t *testing.T) {
	same(t, layer(
		file("../../../up", ""), file("/../abs", ""), slink("host", "/etc"), file("host/passwd", "mine"), slink("out", "../../.."), file("out/x", ""),
		slink("a", "b/.."), slink("b", "a/c"), dir("d"), slink("d/l", "../../../e"), file("d/l/f", ""), link("h", "../../abs"), slink("up2", ".."), file("up2/y", ""),
		slink("chain1", "chain2"), slink("chain2", "/chain3/in"), slink("chain3", "d"), file("chain1/z", ""),
	))
	refused(t, layer(slink("a", "b"), slink("b", "a"), file("a/x", "")))
	refused(t, layer(slink("a", "a/b"), file("a/x", "")))
	refused(t, layer(slink("etc", "/etc"), file("etc/x", "")))
}

func TestDepthIsBounded(t *testing.T) {
	deep := strings.Repeat("d/", 1900)
	same(t, layer(file(deep+"f", "")))
	refused(t, layer(file(strings.Repeat("d/", 2100)+"f", "")))
	var l indextest.Tar
	l.Add(file(deep+"f", ""), slink("s0", deep))
	for i := range 50 {
		l.Add(file(fmt.Sprintf("s%d/%sf", i, deep), ""), slink(fmt.Sprintf("s%d", i+1), fmt.Sprintf("s%d/%s", i, deep)))
	}
	refused(t, l.Bytes())
}

func TestLargeDirectory(t *testing.T) {
	var l indextest.Tar
	const n = 20000
	for i := range n {
		l.Add(file(fmt.Sprintf("big/%x-%d", i*2654435761%n, i), ""))
	}
	d := lazy(t, l.Bytes())
	list, err := os.ReadDir(filepath.Join(d, "big"))
	if len(list) != n || err != nil {
		t.Errorf("%d entries, %v", len(list), err)
	}
	for i := 0; i < n; i += 97 {
		lstat(t, d, fmt.Sprintf("big/%x-%d", i*2654435761%n, i))
	}
	if _, err := os.Lstat(filepath.Join(d, "big/zzz")); !os.IsNotExist(err) {
		t.Error(err)
	}
}
