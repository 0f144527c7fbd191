package store

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// fsWalk calls f for every regular file below root.
func fsWalk(root string, f func(os.FileInfo)) error {
	return filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		fi, err := d.Info()
		if err == nil {
			f(fi)
		}
		return err
	})
}

// allocated returns the bytes that the files below root take on disk.
func allocated(t *testing.T, root string) (n int64) {
	t.Helper()
	if err := fsWalk(root, func(fi os.FileInfo) { n += fi.Sys().(*syscall.Stat_t).Blocks * 512 }); err != nil {
		t.Fatal(err)
	}
	return n
}
