// Package indextest compares file trees byte for byte, unpacks layers the way
// containerd does and mounts indexes: what tests of anything that serves an
// image need. It needs root and a kernel with overlayfs and EROFS.
package indextest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/continuity/sysx"
	"golang.org/x/sys/unix"
)

// Options says what Compare leaves out.
type Options struct {
	SkipContent bool                   // no SHA-256 of contents
	SkipMtime   func(path string) bool // mtimes of these are not compared: implicit directories
	SkipXattr   string                 // an extended attribute that is not compared

	// Orphans leaves out of want, OrphansInGot of got, what readdir shows and
	// lstat does not find: overlayfs's whiteouts of nothing.
	Orphans, OrphansInGot bool
}

// maxDiffs bounds what one Compare reports.
const maxDiffs = 20

// Compare reports with t.Errorf where the tree at got differs from the one at
// want (TREE of the failure cases): path set, type, mode, owner, size, device
// number, link target, mtime, extended attributes, content and hard-link groups
// with their link counts. Sizes and link counts of directories are not compared.
func Compare(t testing.TB, want, got string, o Options) {
	t.Helper()
	diffs := Diff(want, got, o)
	for i, d := range diffs {
		if i == maxDiffs {
			t.Errorf("... and %d more", len(diffs)-i)
			return
		}
		t.Error(d)
	}
}

// Diff is Compare that returns what differs, one line each.
func Diff(want, got string, o Options) []string {
	a, err := scan(want, o)
	if err != nil {
		return []string{"want: " + err.Error()}
	}
	o.Orphans = o.OrphansInGot
	b, err := scan(got, o)
	if err != nil {
		return []string{"got: " + err.Error()}
	}
	var diffs []string
	for p, x := range a {
		y, ok := b[p]
		if !ok {
			diffs = append(diffs, fmt.Sprintf("%q: missing, want %s", p, x))
			continue
		}
		if o.SkipMtime != nil && o.SkipMtime(p) {
			x.mtime, y.mtime = "", ""
		}
		if x.String() != y.String() {
			diffs = append(diffs, fmt.Sprintf("%q:\n got %s\nwant %s", p, y, x))
		}
	}
	for p, y := range b {
		if _, ok := a[p]; !ok {
			diffs = append(diffs, fmt.Sprintf("%q: unexpected %s", p, y))
		}
	}
	slices.Sort(diffs)
	return diffs
}

// entry is all that is compared of one path.
type entry struct {
	ino                                             uint64
	mode, owner, size, rdev, target, mtime, content string
	links                                           string // link count and the first path of the group
	xattrs                                          string
}

func (e entry) String() string {
	s := e.mode + " " + e.owner
	for _, f := range [...]struct{ name, value string }{{"size", e.size}, {"rdev", e.rdev}, {"->", e.target}, {"mtime", e.mtime},
		{"links", e.links}, {"xattrs", e.xattrs}, {"sha256", e.content}} {
		if f.value != "" {
			s += " " + f.name + " " + f.value
		}
	}
	return s
}

func scan(root string, o Options) (map[string]entry, error) {
	entries := map[string]entry{}
	first := map[uint64]string{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		if _, err := os.Lstat(p); o.Orphans && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		e, err := stat(p, o)
		if err != nil {
			return err
		}
		if e.links != "" {
			if _, ok := first[e.ino]; !ok {
				first[e.ino] = rel
			}
			e.links += fmt.Sprintf(" with %q", first[e.ino])
		}
		if d.Type() != fileMode(p) {
			return fmt.Errorf("%q: readdir says %v, lstat %v", rel, d.Type(), fileMode(p))
		}
		entries[rel] = e
		return nil
	})
	return entries, err
}

func fileMode(p string) fs.FileMode {
	fi, err := os.Lstat(p)
	if err != nil {
		return fs.ModeIrregular
	}
	return fi.Mode().Type()
}

func stat(p string, o Options) (entry, error) {
	var st unix.Stat_t
	if err := unix.Lstat(p, &st); err != nil {
		return entry{}, &os.PathError{Op: "lstat", Path: p, Err: err}
	}
	e := entry{ino: st.Ino, mode: fmt.Sprintf("%#o", st.Mode), owner: fmt.Sprintf("%d:%d", st.Uid, st.Gid),
		mtime: fmt.Sprintf("%d.%09d", st.Mtim.Sec, st.Mtim.Nsec)}
	kind := st.Mode & unix.S_IFMT
	if kind != unix.S_IFDIR {
		e.size = fmt.Sprint(st.Size)
	}
	if kind != unix.S_IFDIR && st.Nlink > 1 {
		e.links = fmt.Sprint(st.Nlink)
	}
	var err error
	switch kind {
	case unix.S_IFCHR, unix.S_IFBLK:
		e.rdev = fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	case unix.S_IFLNK:
		e.target, err = os.Readlink(p)
		e.target = fmt.Sprintf("%q", e.target)
	case unix.S_IFREG:
		if !o.SkipContent {
			e.content, err = Sum(p)
		}
	}
	if err != nil {
		return entry{}, err
	}
	e.xattrs, err = xattrs(p, o.SkipXattr)
	return e, err
}

// Sum returns the SHA-256 of a file's content, in hexadecimal.
func Sum(p string) (string, error) {
	f, err := os.Open(p)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := f.WriteTo(h); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// xattrs lists attributes as listxattr and getxattr show them.
func xattrs(p, skip string) (string, error) {
	names, err := sysx.LListxattr(p)
	if err != nil {
		return "", &os.PathError{Op: "llistxattr", Path: p, Err: err}
	}
	slices.Sort(names)
	var s []string
	for _, name := range names {
		if name == skip {
			continue
		}
		v, err := sysx.LGetxattr(p, name)
		if err != nil {
			return "", &os.PathError{Op: "lgetxattr " + name, Path: p, Err: err}
		}
		s = append(s, fmt.Sprintf("%s=%q", name, v))
	}
	return strings.Join(s, " "), nil
}
