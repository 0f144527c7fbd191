package snapshottertest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	continuity "github.com/containerd/continuity/fs"
	"github.com/containerd/continuity/sysx"
	"golang.org/x/sys/unix"
)

const opaque = "trusted.overlay.opaque"

// Merge makes dst a layer in overlayfs form that hides and shows below it what layers, bottom first, do together.
func Merge(dst string, layers []string) error {
	if err := os.Mkdir(dst, 0o700); err != nil {
		return err
	}
	for i, layer := range layers {
		if err := apply(dst, layer); err != nil {
			return fmt.Errorf("merge layer %d of %d: %w", i, len(layers), err)
		}
	}
	return nil
}

// settle takes whiteouts away that hide nothing, since one in a directory that no other layer has shows. below is what lies below dir, merged,
// or "" for nothing; then opaque marks go too.
func settle(dir, below string) error {
	hidden := "" // the path of an opaque directory with a slash: nothing below it shows
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		under := hidden != "" && strings.HasPrefix(rel, hidden)
		switch {
		case e.IsDir() && !under && isOpaque(path):
			hidden = rel + "/"
			if below == "" {
				return unix.Lremovexattr(path, opaque)
			}
		case isWhiteout(path):
			if below != "" && !under {
				if _, err := os.Lstat(filepath.Join(below, rel)); err == nil && !isWhiteout(filepath.Join(below, rel)) {
					return nil
				}
			}
			var parent unix.Stat_t
			if err := unix.Lstat(filepath.Dir(path), &parent); err != nil {
				return err
			}
			return errors.Join(os.Remove(path), setTimes(filepath.Dir(path), parent))
		}
		return nil
	})
}

func isWhiteout(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0
}

// apply copies layer and moves the entries of the copy into dst: so hard links of the layer stay links of each other and nothing else.
func apply(dst, layer string) (err error) {
	tmp := dst + "+"
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	if err := continuity.CopyDir(tmp, layer); err != nil {
		return err
	}
	if err := filepath.WalkDir(tmp, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(tmp, path)
		if err != nil {
			return err
		}
		return put(filepath.Join(dst, rel), path, e)
	}); err != nil {
		return err
	}
	return stamp(dst, layer)
}

// put places the entry src at dst, over what lower layers of the run have there.
func put(dst, src string, e fs.DirEntry) error {
	old, err := os.Lstat(dst)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !e.IsDir() {
		if err := os.RemoveAll(dst); err != nil {
			return err
		}
		return os.Rename(src, dst)
	}
	hides := isOpaque(src)
	if old != nil && (!old.IsDir() || hides) {
		hides = true // a file or whiteout below hid what lies under the run
		if err := os.RemoveAll(dst); err != nil {
			return err
		}
		old = nil
	}
	if old == nil {
		if err := os.Mkdir(dst, 0o700); err != nil {
			return err
		}
	}
	return attrs(dst, src, hides || (old != nil && isOpaque(dst)))
}

func isOpaque(dir string) bool {
	var b [1]byte
	n, err := unix.Lgetxattr(dir, opaque, b[:])
	return err == nil && n == 1 && b[0] == 'y'
}

// attrs gives dst the owner, mode and xattrs of src, and the opaque mark if hides.
func attrs(dst, src string, hides bool) error {
	var st unix.Stat_t
	if err := unix.Lstat(src, &st); err != nil {
		return err
	}
	if err := os.Lchown(dst, int(st.Uid), int(st.Gid)); err != nil {
		return err
	}
	if err := unix.Chmod(dst, st.Mode&0o7777); err != nil {
		return err
	}
	old, err := sysx.LListxattr(dst)
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := unix.Lremovexattr(dst, name); err != nil {
			return err
		}
	}
	names, err := sysx.LListxattr(src)
	if err != nil {
		return err
	}
	for _, name := range names {
		v, err := sysx.LGetxattr(src, name)
		if err != nil {
			return err
		}
		if err := unix.Lsetxattr(dst, name, v, 0); err != nil {
			return err
		}
	}
	if hides {
		return unix.Lsetxattr(dst, opaque, []byte("y"), 0)
	}
	return nil
}

// stamp gives the directories of dst that layer has too their times, after all entries are made.
func stamp(dst, layer string) error {
	return filepath.WalkDir(layer, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(layer, path)
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		return setTimes(filepath.Join(dst, rel), st)
	})
}

func setTimes(path string, st unix.Stat_t) error {
	return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}
