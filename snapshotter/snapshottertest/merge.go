package snapshottertest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/containerd/continuity/sysx"
	"golang.org/x/sys/unix"
)

const opaque = "trusted.overlay.opaque"

// Merge makes dst a layer in overlayfs form that hides and shows below it what layers, bottom first, do together. Files are hard links.
func Merge(dst string, layers []string) error {
	for i, layer := range layers {
		if err := filepath.WalkDir(layer, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(layer, path)
			if err != nil {
				return err
			}
			return put(filepath.Join(dst, rel), path, e)
		}); err != nil {
			return fmt.Errorf("merge layer %d of %d: %w", i, len(layers), err)
		}
		if err := stamp(dst, layer); err != nil {
			return err
		}
	}
	return nil
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
		return os.Link(src, dst)
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
		return unix.UtimesNanoAt(unix.AT_FDCWD, filepath.Join(dst, rel), []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
	})
}
