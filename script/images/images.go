// Package images builds the function images that tests, demo and lab run:
// large, many-layered, real, and without any container registry.
//
//	a  busybox, one layer
//	b  python3 with numpy, scipy and what usually comes along; its function imports them
//	c  generated files; its function reads 64 MB in 2,000 files of three layers
//	s1 to s8  as c, each with other files, 75 MB; functions read 8 MB in 250 files of one layer
//
// a and b come from Debian packages, found and checked by the machine's own
// apt. Each image is an OCI layout directory with gzip layers, as a build tool
// gives, and its function prints READY.
package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// version names the recipes: a layout built by other ones is built again.
const version = "3"

// Names lists the images that stand for functions of their kind. Build knows
// those of Small, too.
func Names() []string { return []string{"a", "b", "c"} }

// Small lists small images that have nothing in common but busybox.
func Small() []string { return []string{"s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8"} }

// recipe adds the layers of an image and returns the command that it runs.
type recipe func(ctx context.Context, w *Writer, work string, log io.Writer) (cmd []string, err error)

var recipes = map[string]recipe{"a": imageA, "b": imageB, "c": imageC}

// Build returns the OCI layout of the image called name below cache, and
// builds it when it is not there. Builds of one cache wait for each other. A
// build that fails leaves nothing that a later one would take for a result.
func Build(ctx context.Context, cache, name string, log io.Writer) (layout string, err error) {
	build, ok := recipes[name]
	if n := slices.Index(Small(), name); n >= 0 {
		build, ok = smallImage(n), true
	}
	if !ok {
		return "", fmt.Errorf("image %q: not one of %v and %v", name, Names(), Small())
	}
	cache = filepath.Join(cache, "images")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(cache, "lock"))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	layout = filepath.Join(cache, name+"-"+version)
	if _, err := os.Stat(filepath.Join(layout, "index.json")); err == nil {
		return layout, nil
	}
	work := filepath.Join(cache, "work")
	if err := os.RemoveAll(work); err != nil { // of a build that was killed
		return "", err
	}
	if err := os.MkdirAll(work, 0o755); err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	w, err := NewWriter(filepath.Join(work, "layout"))
	if err != nil {
		return "", err
	}
	cmd, err := build(ctx, w, work, log)
	if err != nil {
		return "", fmt.Errorf("image %s: %w", name, err)
	}
	if err := w.Close(name, cmd); err != nil {
		return "", fmt.Errorf("image %s: %w", name, err)
	}
	fmt.Fprintf(log, "image %s: %v\n", name, w.Size())
	return layout, os.Rename(filepath.Join(work, "layout"), layout)
}

// Cache returns the directory that keeps what takes long to make, built images
// among it: $FAASNET_CACHE, else .cache in the source tree that the caller
// runs in, else the user's cache directory.
func Cache() (string, error) {
	if dir := os.Getenv("FAASNET_CACHE"); dir != "" {
		return dir, nil
	}
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, ".cache"), nil
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	user, err := os.UserCacheDir()
	return filepath.Join(user, "faasnet"), err
}

// IsName reports whether s names an image of ours and not a reference.
func IsName(s string) bool { return slices.Contains(Names(), s) || slices.Contains(Small(), s) }

// lock takes the file lock at path; the kernel drops it when the process ends.
func lock(path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f.Close, nil
}
