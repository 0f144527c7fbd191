package fs

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/fs/index"
)

// Probe finds out by trying whether this kernel can do what FS needs: it makes
// a FUSE mount below dir, mounts a small EROFS image whose device is on it, puts
// an overlay on top, and reads a file through all of them. Kernel versions say too
// little: distributions switch parts off, and some releases broke the stacking.
// The error matches errdefs.ErrNotImplemented and names what is missing.
func Probe(ctx context.Context, dir string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("no file-backed EROFS: %s: %w: %w", missing(err), err, errdefs.ErrNotImplemented)
		}
	}()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(dir, probePrefix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeProbe(tmp)) }()
	content := make([]byte, 300<<10) // more than two READs
	rand.Read(content)
	img, layer, err := probeImage(content)
	if err != nil {
		return err
	}
	f, err := New(ctx, tmp, Options{Grace: time.Second})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	f.start()
	m, err := f.Mount(ctx, img, []File{layer})
	if err != nil {
		return err
	}
	return within(ctx, func() error { return compare(tmp, m.Dir(), content) })
}

// probePrefix begins the names of the directories of trials.
const probePrefix = "probe-"

// Directories of a trial beside those of an FS.
const (
	overlayDir = "o"
	emptyDir   = "e"
)

// removeProbe removes the directory of a trial whose mounts are gone, and fails
// if one is not.
func removeProbe(tmp string) error {
	for _, d := range []string{layersDir, imagesDir, mountsDir, overlayDir, emptyDir} {
		os.Remove(filepath.Join(tmp, d))
	}
	return os.Remove(tmp)
}

// within runs op, which may hang in the kernel, and leaves it behind when ctx ends.
func within(ctx context.Context, op func() error) error {
	done := make(chan error, 1)
	go func() { done <- op() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

const probeFile = "probe"

// compare reads the file through an overlay on lower.
func compare(tmp, lower string, want []byte) (err error) {
	merged, empty := filepath.Join(tmp, overlayDir), filepath.Join(tmp, emptyDir)
	for _, d := range []string{merged, empty} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return err
		}
	}
	if err := unix.Mount("overlay", merged, "overlay", unix.MS_RDONLY, "lowerdir="+lower+":"+empty); err != nil {
		return &os.PathError{Op: "mount overlay on EROFS", Path: merged, Err: err}
	}
	defer func() { err = errors.Join(err, unmount(merged)) }()
	got, err := os.ReadFile(filepath.Join(merged, probeFile))
	if err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("file read through EROFS differs: %w", errdefs.ErrDataLoss)
	}
	return nil
}

func probeImage(content []byte) ([]byte, File, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: probeFile, Mode: 0o644, Size: int64(len(content)), Format: tar.FormatPAX})
	if err == nil {
		_, err = w.Write(content)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, nil, err
	}
	tree, err := index.FromTar(bytes.NewReader(b.Bytes()))
	if err != nil {
		return nil, nil, err
	}
	img, err := tree.Encode([]int64{int64(b.Len())})
	return img, &memory{b.Bytes()}, err
}

// memory is a File in memory.
type memory struct{ p []byte }

func (m *memory) Size() int64 { return int64(len(m.p)) }

func (m *memory) View(_ context.Context, off int64, n int) (Span, error) {
	return Span{Data: m.p[off : off+int64(n)]}, nil
}

func (m *memory) Local() (string, bool) { return "", false }

// missing says in words what the kernel lacks.
func missing(err error) string {
	switch {
	case errors.Is(err, unix.EPERM):
		return "the daemon needs root (CAP_SYS_ADMIN)"
	case errors.Is(err, unix.ENOSYS):
		return "the kernel has no fsopen(2), Linux 5.2 or later is needed"
	case errors.Is(err, unix.ENOTBLK):
		return "EROFS is mounted from block devices only: by this kernel (CONFIG_EROFS_FS_BACKED_BY_FILE, Linux 6.12 or later), or on this file system (tmpfs)"
	case errors.Is(err, unix.ENODEV):
		return "the kernel lacks a file system (CONFIG_EROFS_FS, CONFIG_FUSE_FS or CONFIG_OVERLAY_FS)"
	case errors.Is(err, os.ErrNotExist):
		return "no /dev/fuse (CONFIG_FUSE_FS)"
	case errors.Is(err, context.DeadlineExceeded):
		return "a mount or a read did not end in time"
	default:
		return "a trial mount failed"
	}
}
