package fs

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/fs/index"
)

func TestMount127Devices(t *testing.T) {
	f := newFS(t, Options{})
	var layers []*layer
	var trees []*index.Tree
	for i := range 127 {
		l, tree := newLayer(t, entry{name: fmt.Sprintf("f%d", i), data: random(uint64(i), 3000+i)})
		l.local.Store(i%2 == 1)
		layers, trees = append(layers, l), append(trees, tree)
	}
	m := mount(t, f, trees, layers...)
	for i := range layers {
		got, err := os.ReadFile(filepath.Join(m.Dir(), fmt.Sprintf("f%d", i)))
		if err != nil || !bytes.Equal(got, random(uint64(i), 3000+i)) {
			t.Errorf("file of device %d differs, %v", i+1, err)
		}
	}
}

func TestFU02_SetuidAndDevicesWork(t *testing.T) {
	f := newFS(t, Options{})
	l, tree := newLayer(t, entry{name: "f", data: random(1, 10)})
	m := mount(t, f, []*index.Tree{tree}, l)
	var st unix.Statfs_t
	if err := unix.Statfs(m.Dir(), &st); err != nil {
		t.Fatal(err)
	}
	if st.Flags&(unix.ST_NOSUID|unix.ST_NODEV|unix.ST_NOEXEC) != 0 || st.Flags&unix.ST_RDONLY == 0 {
		t.Errorf("flags of the mount %#x, want read-only and nothing else", st.Flags)
	}
}

// walk does what find and stat do and returns the inode number of each path.
func walk(t *testing.T, root string) map[string]uint64 {
	t.Helper()
	inodes := map[string]uint64{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		if d.Type()&fs.ModeSymlink != 0 {
			if _, err := os.Readlink(path); err != nil {
				return err
			}
		}
		inodes[path] = st.Ino
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return inodes
}

// manyFiles gives two layers with files of the same shape.
func manyFiles(t *testing.T) ([]*layer, []*index.Tree) {
	t.Helper()
	var layers []*layer
	var trees []*index.Tree
	for i := range 2 {
		entries := []entry{{name: "d/"}, {name: "d/link", data: []byte{}, link: strings.Repeat("x/", 150)}}
		for j := range 300 {
			entries = append(entries, entry{name: fmt.Sprintf("d/%d-%d", i, j), data: random(uint64(j), 100*j+1)})
		}
		l, tree := newLayer(t, entries...)
		layers, trees = append(layers, l), append(trees, tree)
	}
	return layers, trees
}

func TestFindAndStatNeedNoFUSE(t *testing.T) {
	f := newFS(t, Options{})
	layers, trees := manyFiles(t)
	m := mount(t, f, trees, layers...)
	dropCaches(t)
	before := requests(t, f)
	if n := len(walk(t, m.Dir())); n != 603 {
		t.Errorf("found %d entries, want 603", n)
	}
	if n := requests(t, f) - before; n != 0 {
		t.Errorf("find and stat caused %v FUSE requests, want none", n)
	}
	if _, err := os.ReadFile(filepath.Join(m.Dir(), "d/0-299")); err != nil {
		t.Fatal(err)
	}
	if requests(t, f) == before {
		t.Error("a read of data caused no FUSE request: they are not counted")
	}
}

func TestFU06_InodeNumbers(t *testing.T) {
	f := newFS(t, Options{})
	layers, trees := manyFiles(t)
	m := mount(t, f, trees, layers...)
	inodes := walk(t, m.Dir())
	seen := map[uint64]string{0: "nothing: 0 is no inode number"}
	for path, ino := range inodes {
		if other, ok := seen[ino]; ok {
			t.Errorf("%s and %s have inode number %d", path, other, ino)
		}
		seen[ino] = path
	}
	dropCaches(t)
	for path, ino := range walk(t, m.Dir()) {
		if inodes[path] != ino {
			t.Errorf("%s: inode number %d, was %d", path, ino, inodes[path])
		}
	}
}

// names reads a directory from cookie on through a buffer of size bytes, and
// returns each name with the cookie that follows it.
func names(t *testing.T, fd int, cookie int64, size int) (l []string, cookies []int64) {
	t.Helper()
	if _, err := unix.Seek(fd, cookie, unix.SEEK_SET); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, size)
	for {
		n, err := unix.Getdents(fd, buf)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return l, cookies
		}
		for p := buf[:n]; len(p) > 0; {
			// struct linux_dirent64: ino 8, off 8, reclen 2, type 1, name
			reclen := int(p[16]) | int(p[17])<<8
			name, _, _ := bytes.Cut(p[19:reclen], []byte{0})
			off := int64(0)
			for i := range 8 {
				off |= int64(p[8+i]) << (8 * i)
			}
			l, cookies = append(l, string(name)), append(cookies, off)
			p = p[reclen:]
		}
	}
}

func TestFU05_DirectorySeek(t *testing.T) {
	const entries = 20000
	f := newFS(t, Options{})
	list := []entry{{name: "d/"}}
	want := []string{".", ".."}
	for i := range entries {
		name := fmt.Sprintf("file-%05d", i)
		list, want = append(list, entry{name: "d/" + name, data: []byte{}, link: "x"}), append(want, name)
	}
	l, tree := newLayer(t, list...)
	m := mount(t, f, []*index.Tree{tree}, l)
	fd, other := open(t, filepath.Join(m.Dir(), "d"), unix.O_DIRECTORY), open(t, filepath.Join(m.Dir(), "d"), unix.O_DIRECTORY)
	all, cookies := names(t, fd, 0, 1024)
	if sorted := slices.Sorted(slices.Values(all)); !slices.Equal(sorted, want) {
		t.Fatalf("%d names, want %d, or they differ", len(all), len(want))
	}
	for i := 1000; i < len(all); i += 1000 { // back to an earlier cookie, on two handles
		for _, h := range []int{fd, other} {
			if again, _ := names(t, h, cookies[i-1], 1024); !slices.Equal(again, all[i:]) {
				t.Errorf("from cookie %d: %d names, want %d, or their order differs", cookies[i-1], len(again), len(all)-i)
			}
		}
	}
	if again, _ := names(t, fd, 0, 32<<10); !slices.Equal(again, all) {
		t.Error("a second pass gives another order")
	}
}

func TestFU11_Sizes(t *testing.T) {
	f := newFS(t, Options{})
	target := strings.Repeat("a", 300)
	sizes := []int{0, 1, 512<<10 + 1}
	list := []entry{{name: "link", data: []byte{}, link: target}}
	for _, n := range sizes {
		list = append(list, entry{name: fmt.Sprint(n), data: append([]byte{}, random(1, n)...)})
	}
	l, tree := newLayer(t, list...)
	m := mount(t, f, []*index.Tree{tree}, l)
	if fi, err := os.Lstat(filepath.Join(m.Dir(), "link")); err != nil || fi.Size() != 300 {
		t.Errorf("size of the symbolic link: %v, %v", fi, err)
	}
	for _, n := range sizes {
		fi, err := os.Lstat(filepath.Join(m.Dir(), fmt.Sprint(n)))
		if err != nil {
			t.Fatal(err)
		}
		blocks, want := fi.Sys().(*syscall.Stat_t).Blocks, int64((n+4095)/4096*8)
		if fi.Size() != int64(n) || blocks < int64(n+511)/512 || blocks > want {
			t.Errorf("file of %d bytes: size %d, %d blocks, want at most %d", n, fi.Size(), blocks, want)
		}
	}
}
