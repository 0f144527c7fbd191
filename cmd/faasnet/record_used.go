package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/convert/start"
)

// largeFile is the size in bytes from which it is recorded how much of a file
// was read: smaller ones are read ahead as a whole.
const largeFile = 1 << 20

// window is how much of a file is looked at at a time, in bytes.
const window = 1 << 30

// flush writes the dirty pages of the file systems that dirs are on: forget
// leaves those in the cache.
func flush(dirs []string) error {
	done := make(map[uint64]bool)
	for _, dir := range dirs {
		if err := flushOnce(dir, done); err != nil {
			return err
		}
	}
	return nil
}

// flushOnce does so for one directory, unless its device is done.
func flushOnce(dir string, done map[uint64]bool) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	if done[st.Dev] {
		return nil
	}
	done[st.Dev] = true
	return os.NewSyscallError("syncfs", unix.Syncfs(int(f.Fd())))
}

// forget drops what the page cache has of the large files under root, so that
// what is there after a run was read by the run.
func forget(ctx context.Context, root string) error {
	return filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil || info.Size() < largeFile {
			return err
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		return os.NewSyscallError("fadvise", unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
	})
}

// entries makes a record of the names that are files of the image at dir: a run
// also opens those that it has made.
func entries(dir string, names []string) (start.Record, error) {
	root, err := os.OpenRoot(dir) // no link of the image leads out of it
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	var out start.Record
	for _, name := range names {
		f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			continue // not in the image
		}
		e, ok, err := entry(f, name)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if ok {
			out = append(out, e)
		}
	}
	return out, nil
}

func entry(f *os.File, name string) (start.Entry, bool, error) {
	e := start.Entry{Path: name}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() < largeFile {
		return e, err == nil && info.Mode().IsRegular(), err
	}
	n, err := cached(f, info.Size(), window)
	e.Used = &n
	return e, true, err
}

// cached is how many bytes of a file are in the page cache. It looks at no more
// than window bytes at a time: a sparse file may be larger than any memory.
func cached(f *os.File, size, window int64) (n int64, err error) {
	for off := int64(0); off < size; off += window {
		m, err := cachedIn(f, off, min(window, size-off))
		if err != nil {
			return 0, err
		}
		n += m
	}
	return n, nil
}

// cachedIn is cached for a part of a file. off is a multiple of the page size.
func cachedIn(f *os.File, off, size int64) (n int64, err error) {
	// Not cachestat: the pages are those of the file below an overlay, which
	// only a mapping leads to.
	p, err := unix.Mmap(int(f.Fd()), off, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return 0, os.NewSyscallError("mmap", err)
	}
	defer func() { err = errors.Join(err, unix.Munmap(p)) }()
	page := os.Getpagesize()
	resident := make([]byte, (len(p)+page-1)/page)
	if err := mincore(p, resident); err != nil {
		return 0, os.NewSyscallError("mincore", err)
	}
	for _, r := range resident {
		n += int64(r&1) * int64(page)
	}
	return min(n, size), nil
}
