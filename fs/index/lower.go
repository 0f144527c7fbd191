package index

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/continuity/sysx"
	"golang.org/x/sys/unix"
)

// Lstat makes a merged tree a Lower.
func (t *Tree) Lstat(path string) (Attr, bool, error) {
	n := t.root
	for name := range strings.SplitSeq(path, "/") {
		next, ok := n.names[name]
		if !ok || next.IsWhiteout() {
			return Attr{}, false, nil
		}
		n = next
	}
	return n.Attr, true, nil
}

// Dirs is a Lower over directories of this machine, top first: the lower
// directories of an overlay mount, read as overlayfs reads them.
type Dirs []string

// Lstat finds path in the stack of directories. Extended attributes of
// overlayfs itself are left out.
func (d Dirs) Lstat(path string) (Attr, bool, error) {
	stack := []string(d)
	names := strings.Split(path, "/")
	for i, name := range names {
		var dirs []string
		var top Attr
		for _, parent := range stack {
			p := filepath.Join(parent, name)
			a, opaque, ok, err := hostAttr(p)
			if err != nil {
				return Attr{}, false, err
			}
			if !ok {
				continue
			}
			if len(dirs) == 0 {
				top = a
			}
			if !a.IsDir() {
				if len(dirs) == 0 && i == len(names)-1 && !a.IsWhiteout() {
					return a, true, nil
				}
				break
			}
			if dirs = append(dirs, p); opaque {
				break
			}
		}
		if len(dirs) == 0 {
			return Attr{}, false, nil
		}
		if i == len(names)-1 {
			return top, true, nil
		}
		stack = dirs
	}
	return Attr{}, false, nil
}

// hostAttr reads a file's attributes from the host.
func hostAttr(p string) (a Attr, opaque, ok bool, err error) {
	var st unix.Stat_t
	if err := unix.Lstat(p, &st); errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return a, false, false, nil
	} else if err != nil {
		return a, false, false, &os.PathError{Op: "lstat", Path: p, Err: err}
	}
	a = Attr{Mode: st.Mode, UID: st.Uid, GID: st.Gid, Rdev: uint32(st.Rdev), Sec: st.Mtim.Sec, Nsec: uint32(st.Mtim.Nsec), Size: st.Size}
	if !a.IsDir() {
		return a, false, true, nil
	}
	names, err := sysx.LListxattr(p)
	if err != nil {
		return a, false, false, &os.PathError{Op: "listxattr", Path: p, Err: err}
	}
	slices.Sort(names)
	for _, name := range names {
		v, err := sysx.LGetxattr(p, name)
		switch {
		case errors.Is(err, unix.ENODATA):
		case err != nil:
			return a, false, false, &os.PathError{Op: "getxattr " + name, Path: p, Err: err}
		case name == opaqueXattr:
			opaque = string(v) == "y"
		case !strings.HasPrefix(name, "trusted.overlay."):
			a.Xattrs = append(a.Xattrs, Xattr{name, string(v)})
		}
	}
	return a, opaque, true, nil
}
