package images

import (
	"archive/tar"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Dir returns a layer with everything below root, in lexical order. Owners,
// modes, times and hard links are kept, extended attributes are not; times
// later than the image's own are set back to it.
func Dir(root string) Layer {
	return func(tw *tar.Writer) error {
		first := map[uint64]string{} // inode -> its first name
		return filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil || path == root {
				return err
			}
			h, err := header(root, path, e)
			if err != nil {
				return err
			}
			if st := h.sys; st.Nlink > 1 && h.Typeflag == tar.TypeReg {
				if name, ok := first[st.Ino]; ok {
					h.Typeflag, h.Linkname, h.Size = tar.TypeLink, name, 0
				} else {
					first[st.Ino] = h.Name
				}
			}
			if err := tw.WriteHeader(&h.Header); err != nil || h.Typeflag != tar.TypeReg {
				return err
			}
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = io.Copy(tw, f)
			return err
		})
	}
}

type fileHeader struct {
	tar.Header
	sys *syscall.Stat_t
}

func header(root, path string, e fs.DirEntry) (*fileHeader, error) {
	info, err := e.Info()
	if err != nil {
		return nil, err
	}
	var target string
	if info.Mode()&fs.ModeSymlink != 0 {
		if target, err = os.Readlink(path); err != nil {
			return nil, err
		}
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return nil, err
	}
	if h.Name, err = filepath.Rel(root, path); err != nil {
		return nil, err
	}
	if info.IsDir() {
		h.Name += "/"
	}
	h.Uname, h.Gname, h.AccessTime, h.ChangeTime = "", "", time.Time{}, time.Time{}
	if h.ModTime.After(epoch) {
		h.ModTime = epoch
	}
	return &fileHeader{*h, info.Sys().(*syscall.Stat_t)}, nil
}

// file writes one regular file of root's that all may read.
func file(tw *tar.Writer, name string, data []byte) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(data)), ModTime: epoch}
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	_, err := tw.Write(data)
	return err
}

// dirs writes directories of root's.
func dirs(tw *tar.Writer, names ...string) error {
	for _, n := range names {
		if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: n + "/", Mode: 0o755, ModTime: epoch}); err != nil {
			return err
		}
	}
	return nil
}
