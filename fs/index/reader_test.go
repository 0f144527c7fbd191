package index_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	erofs "github.com/erofs/go-erofs"
	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/fs/index"
)

// TestGoErofsReadsIt reads images with another implementation of EROFS.
func TestGoErofsReadsIt(t *testing.T) {
	l, _ := victim(t)
	for i, layers := range [][][]byte{{l}, {cf02(), l}, randomStack(t, 7, true), randomStack(t, 8, true)} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			tree, err := index.Merge(fromTar(t, layers...), nil)
			if err != nil {
				t.Fatal(err)
			}
			img, err := tree.Encode(lengths(layers...))
			if err != nil {
				t.Fatal(err)
			}
			var devices []io.ReaderAt
			for _, l := range layers {
				devices = append(devices, bytes.NewReader(l))
			}
			fsys, err := erofs.Open(bytes.NewReader(img), erofs.WithExtraDevices(devices...))
			if err != nil {
				t.Fatal(err)
			}
			if err := tree.Walk(func(f index.File) error { return checkGoErofs(fsys, f, layers) }); err != nil {
				t.Error(err)
			}
		})
	}
}

func checkGoErofs(fsys fs.FS, f index.File, layers [][]byte) error {
	fi, err := fsys.(interface {
		Lstat(string) (fs.FileInfo, error)
	}).Lstat(f.Path)
	if err != nil {
		return fmt.Errorf("%q: %w", f.Path, err)
	}
	st := fi.Sys().(*erofs.Stat)
	xattrs := map[string]string{}
	for _, x := range f.Xattrs {
		xattrs[x.Name] = x.Value
	}
	if f.IsDir() {
		list, err := fs.ReadDir(fsys, f.Path)
		var names []string
		for _, e := range list {
			names = append(names, e.Name())
		}
		if err != nil || !slices.Equal(names, f.List()) {
			return fmt.Errorf("%q: lists %q, want %q: %w", f.Path, names, f.List(), err)
		}
	} else if fi.Size() != f.Size || uint32(st.Nlink) != f.Nlink {
		return fmt.Errorf("%q: size %d, nlink %d: %+v", f.Path, fi.Size(), st.Nlink, f.Attr)
	}
	rdev := f.Rdev == 0 || st.Rdev == f.Rdev
	if st.UID != f.UID || st.GID != f.GID || st.Mtime != uint64(f.Sec) || st.MtimeNs != f.Nsec || !rdev || unixMode(st.Mode) != f.Mode ||
		len(xattrs) != len(st.Xattrs) || len(xattrs) > 0 && !reflect.DeepEqual(st.Xattrs, xattrs) {
		return fmt.Errorf("%q: go-erofs %v %+v, tree %+v", f.Path, fi.Mode(), st, f.Attr)
	}
	if f.IsRegular() {
		b, err := fs.ReadFile(fsys, f.Path)
		if err != nil || !bytes.Equal(b, contentOf(f, layers)) {
			return fmt.Errorf("%q: other content: %w", f.Path, err)
		}
	}
	return nil
}

// contentOf reads a file by its ranges.
func contentOf(f index.File, layers [][]byte) []byte {
	b := make([]byte, f.Size)
	for _, r := range f.Ranges() {
		copy(b[r.Logical:], layers[r.Device][r.Offset:r.Offset+r.Size])
	}
	return b
}

func unixMode(m fs.FileMode) uint32 {
	mode := uint32(m.Perm())
	for bit, unixBit := range map[fs.FileMode]uint32{fs.ModeSetuid: unix.S_ISUID, fs.ModeSetgid: unix.S_ISGID, fs.ModeSticky: unix.S_ISVTX} {
		if m&bit != 0 {
			mode |= unixBit
		}
	}
	kinds := map[fs.FileMode]uint32{0: unix.S_IFREG, fs.ModeDir: unix.S_IFDIR, fs.ModeSymlink: unix.S_IFLNK, fs.ModeNamedPipe: unix.S_IFIFO,
		fs.ModeDevice | fs.ModeCharDevice: unix.S_IFCHR, fs.ModeDevice: unix.S_IFBLK}
	return mode | kinds[m.Type()]
}

func TestLookup(t *testing.T) {
	tree := fromTar(t, layer(dir("d"), file("d/f", "body"), slink("d/up", "../l"), slink("l", "/d"), slink("loop", "loop"), link("h", "d/f")))[0]
	for name, want := range map[string]string{"": ".", "/": ".", "d/f": "d/f", "/d/../d/f": "d/f", "l": "l", "l/f": "d/f", "d/up/up/f": "d/f", "loop": "loop"} {
		if f, err := tree.Lookup(name); f.Path != want || err != nil {
			t.Errorf("Lookup(%q): %q, %v", name, f.Path, err)
		}
	}
	for _, name := range []string{"no", "d/no", "l/no/no"} {
		if _, err := tree.Lookup(name); !errors.Is(err, errdefs.ErrNotFound) {
			t.Errorf("Lookup(%q): %v", name, err)
		}
	}
	for _, name := range []string{"loop/x", "d/f/x", "d/" + strings.Repeat("n", 256)} {
		if _, err := tree.Lookup(name); err == nil {
			t.Errorf("Lookup(%q) finds something", name)
		}
	}
	if f, err := tree.Resolve("d/up"); f.Path != "d" || err != nil {
		t.Errorf("Resolve: %q, %v", f.Path, err)
	}
	f, err := tree.Lookup("d/f")
	h, err2 := tree.Lookup("h")
	if err != nil || err2 != nil || !f.Same(h) || f.Nlink != 2 {
		t.Errorf("%+v, %v and %+v, %v", f, err, h, err2)
	}
}

func TestWalkStops(t *testing.T) {
	tree := fromTar(t, layer(file("a/b/c", ""), file("z", "")))[0]
	var got []string
	stop := errors.New("stop")
	err := tree.Walk(func(f index.File) error {
		if got = append(got, path.Clean("/"+f.Path)); f.Path == "a/b/c" {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || !slices.Equal(got, []string{"/", "/a", "/a/b", "/a/b/c"}) {
		t.Errorf("%q, %v", got, err)
	}
}

// TestCF21_SameTreeSameBytes builds the same tree many times, in which maps are
// walked in other orders.
func TestCF21_SameTreeSameBytes(t *testing.T) {
	layers := randomStack(t, 21, true)
	var want []byte
	for range 20 {
		tree, err := index.Merge(fromTar(t, layers...), nil)
		if err != nil {
			t.Fatal(err)
		}
		img, err := tree.Encode(lengths(layers...))
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = img
		}
		if !bytes.Equal(img, want) {
			t.Fatal("the same tree gives other bytes")
		}
	}
	if bytes.Equal(want[1024+48:1024+64], make([]byte, 16)) {
		t.Error("UUID is zero")
	}
}

func TestEncodeRefusesShortDevices(t *testing.T) {
	l, _ := victim(t)
	tree := fromTar(t, l)[0]
	for _, devices := range [][]int64{nil, {0}, {1024}, {-1}, {1 << 42}, lengths(l, l)} {
		if _, err := tree.Encode(devices); !errors.Is(err, errdefs.ErrInvalidArgument) {
			t.Errorf("%v: %v", devices, err)
		}
	}
}
