package index_test

import (
	"archive/tar"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/faasnet/faasnet/fs/index/indextest"
)

type hdr = indextest.Header

func layer(entries ...hdr) []byte { return new(indextest.Tar).Add(entries...).Bytes() }

func dir(name string) hdr          { return hdr{Name: name, Type: tar.TypeDir} }
func file(name, body string) hdr   { return hdr{Name: name, Body: body} }
func link(name, target string) hdr { return hdr{Name: name, Link: target, Type: tar.TypeLink} }
func slink(name, target string) hdr {
	return hdr{Name: name, Link: target, Type: tar.TypeSymlink, Mode: 0o777}
}

func lstat(t *testing.T, parts ...string) *syscall.Stat_t {
	t.Helper()
	fi, err := os.Lstat(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return fi.Sys().(*syscall.Stat_t)
}

func TestCF01_HardLinkToSymlink(t *testing.T) {
	d := same(t, layer(file("t", "T"), slink("s", "t"), link("h", "s")))
	s, h, tt := lstat(t, d, "s"), lstat(t, d, "h"), lstat(t, d, "t")
	if s.Ino != h.Ino || h.Nlink != 2 || h.Mode&syscall.S_IFMT != syscall.S_IFLNK {
		t.Errorf("s %+v, h %+v", s, h)
	}
	if tt.Nlink != 1 {
		t.Errorf("t has nlink %d", tt.Nlink)
	}
}

func cf02() []byte {
	last := link("h4", "/a/t")
	last.Mode = 0o640
	return layer(file("a/t", "data"), link("a/h1", "a/t"), link("b/c/h2", "a/t"), link("h3", "./a/t"), last)
}

func TestCF02_FiveNames(t *testing.T) {
	d := same(t, cf02(), layer(file("other", "x")))
	want := lstat(t, d, "a/t")
	for _, name := range []string{"a/h1", "b/c/h2", "h3", "h4"} {
		if st := lstat(t, d, name); st.Ino != want.Ino || st.Nlink != 5 || st.Mode != syscall.S_IFREG|0o640 {
			t.Errorf("%s: %+v, a/t is %+v", name, st, want)
		}
	}
}

func TestCF03_LinkBeforeTarget(t *testing.T) {
	got := refused(t, layer(link("b/h", "a/t"), file("a/t", "data")))
	if !strings.Contains(got, `"b/h"`) || !strings.Contains(got, `"a/t"`) {
		t.Errorf("%s: entry and target are not named", got)
	}
}

func TestCF25_LinkToLowerLayer(t *testing.T) {
	got := refused(t, layer(link("h", "t")))
	if !strings.Contains(got, `"h"`) || !strings.Contains(got, `"t"`) {
		t.Errorf("%s: entry and target are not named", got)
	}
	d := same(t, layer(file("t", "T"), link("h", "t")), layer(file("t", "NEW")))
	for name, want := range map[string]string{"t": "NEW", "h": "T"} {
		if b, err := os.ReadFile(filepath.Join(d, name)); string(b) != want || err != nil {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

func TestLinkTargetForms(t *testing.T) {
	same(t, layer(
		dir("real"), file("real/f", "1"), slink("l", "real"), slink("abs", "/real"), slink("up", "../../real"),
		link("h1", "l/f"), link("h2", "abs/f"), link("h3", "up/f"), link("h4", "real/../real/f"), link("h5", "../real/f"),
		link("h6", "real//f"), link("h7", "h1/"), link("l/h8", "real/f"), link("abs/h9", "./real/./f"),
	))
}

func TestLinkRefused(t *testing.T) {
	for name, l := range map[string][]byte{
		"directory":       layer(dir("d"), link("h", "d")),
		"root":            layer(link("h", "/")),
		"parent of root":  layer(link("h", "..")),
		"itself":          layer(file("f", "x"), link("f", "f")),
		"through a file":  layer(file("f", "x"), link("h", "f/g")),
		"replaced parent": layer(dir("d"), file("d/f", "x"), file("d", "y"), link("h", "d/f")),
	} {
		t.Run(name, func(t *testing.T) { refused(t, l) })
	}
}

func TestLinkSurvivesItsTarget(t *testing.T) {
	same(t, layer(dir("d"), file("d/f", "x"), link("h", "d/f"), link("i", "h"), file("d", "now a file"), file("h", "new")))
}

func TestLinkToWhiteout(t *testing.T) {
	same(t, layer(file("x", "x"), file("y", "y")), layer(hdr{Name: ".wh.x"}, link("y", "x")))
}
