package endpoint_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/convert/endpoint"
	"github.com/faasnet/faasnet/convert/imagetest"
)

// replaced writes a file and returns its mode.
func replaced(t *testing.T, path string) os.FileMode {
	t.Helper()
	if err := endpoint.CheckReplace(path); err != nil {
		t.Error(err)
	}
	if err := endpoint.Replace(path, func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err }); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "new" {
		t.Errorf("%s has %q, %v", path, b, err)
	}
	return info.Mode()
}

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "d", "file")
	for _, name := range []string{"d", "e"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if mode := replaced(t, file); mode != 0o644 {
		t.Errorf("a new file has mode %v", mode)
	}
	if err := errors.Join(os.Chown(file, 12, 34), os.Chmod(file, 0o600), os.Symlink("../d/file", filepath.Join(dir, "e", "link")),
		os.Symlink("e/link", filepath.Join(dir, "chain")), os.Symlink("e/new", filepath.Join(dir, "dangling")),
		os.Symlink("loop", filepath.Join(dir, "loop"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"d/file", "e/link", "chain"} {
		mode := replaced(t, filepath.Join(dir, name))
		var st unix.Stat_t
		if err := unix.Stat(file, &st); err != nil || mode != 0o600 || st.Uid != 12 || st.Gid != 34 {
			t.Errorf("%s: mode %v, owner %d:%d, %v, want those that it had", name, mode, st.Uid, st.Gid, err)
		}
	}
	replaced(t, filepath.Join(dir, "dangling"))
	for _, name := range []string{"e/link", "chain", "dangling"} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s is no link any more", name)
		}
	}
	err := endpoint.Replace(file, func(w io.Writer) error { _, _ = io.WriteString(w, "half"); return unix.EIO })
	if b, _ := os.ReadFile(file); !errors.Is(err, unix.EIO) || !strings.HasPrefix(err.Error(), file+": ") || string(b) != "new" {
		t.Errorf("error is %v, the file has %q", err, b)
	}
	// What cannot be read is not what cannot be written.
	source := filepath.Join(dir, "source")
	err = endpoint.Replace(file, func(io.Writer) error { return &os.PathError{Op: "read", Path: source, Err: unix.EIO} })
	if err == nil || !strings.HasPrefix(err.Error(), file+": ") || !strings.Contains(err.Error(), source) {
		t.Errorf("error is %v, want one that names %s", err, source)
	}
	full := endpoint.Replace(file, func(w io.Writer) error {
		w.(*os.File).Close()
		_, err := w.Write([]byte("x"))
		return fmt.Errorf("copy: %w", err)
	})
	if full == nil || strings.Contains(full.Error(), ".faasnet-") {
		t.Errorf("error is %v, want none that names a temporary file", full)
	}
	if entries, _ := os.ReadDir(filepath.Join(dir, "d")); len(entries) != 1 {
		t.Errorf("files are %v", entries)
	}
}

func TestReplaceRefuses(t *testing.T) {
	dir := t.TempDir()
	null, pipe := filepath.Join(dir, "null"), filepath.Join(dir, "pipe")
	if err := errors.Join(unix.Mknod(null, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))), unix.Mkfifo(pipe, 0o666),
		os.Symlink("null", filepath.Join(dir, "link")), os.Symlink("loop", filepath.Join(dir, "loop"))); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	fd := filepath.Join(dir, "fd")
	if err := os.Symlink("/proc/self/fd", fd); err != nil {
		t.Fatal(err)
	}
	open, err := os.Create(filepath.Join(dir, "deleted"))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := os.Remove(open.Name()); err != nil {
		t.Fatal(err)
	}
	number := func(f *os.File) string { return "fd/" + strconv.Itoa(int(f.Fd())) }
	before, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, why := range map[string]string{
		"null": "in the way", "pipe": "in the way", "link": "in the way", ".": "in the way", number(w): "in the way", number(open): "in the way",
		"none/f": "no such", "loop": "too many", "null/f": "not a directory",
	} {
		path := filepath.Join(dir, name)
		err := endpoint.Replace(path, func(io.Writer) error { t.Errorf("%s is written", name); return nil })
		if err == nil || !strings.Contains(err.Error(), why) || !strings.HasPrefix(err.Error(), path+": ") {
			t.Errorf("%s: error is %v, want %q", name, err, why)
		}
		if err := endpoint.CheckReplace(path); err == nil || !strings.Contains(err.Error(), why) || !strings.HasPrefix(err.Error(), path+": ") {
			t.Errorf("%s: beforehand the error is %v, want %q", name, err, why)
		}
	}
	if after, err := os.ReadDir(dir); err != nil || len(after) != len(before) {
		t.Errorf("files are %v, %v", after, err)
	}
	if info, err := os.Lstat(null); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		t.Error("the device is gone")
	}
}

// TestPutKeepsLinks: archives and lists of images that are links stay links.
func TestPutKeepsLinks(t *testing.T) {
	cs := newStore(t)
	img := imagetest.Put(t, cs, imagetest.Image{Layers: []imagetest.Layer{{Tar: tarOf("a", "A")}}})
	dir := t.TempDir()
	p := &endpoint.Places{Work: t.TempDir()}
	archive := endpoint.Name{Kind: endpoint.Archive, Path: filepath.Join(dir, "a.tar")}
	layout := endpoint.Name{Kind: endpoint.Layout, Path: filepath.Join(dir, "layout")}
	index := filepath.Join(layout.Path, "index.json")
	for range 2 {
		for _, n := range []endpoint.Name{archive, layout} {
			if err := errors.Join(endpoint.CheckTarget(n), p.Put(t.Context(), n, img, cs)); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Open(t.Context(), n); err != nil {
				t.Error(err)
			}
		}
		for _, name := range []string{archive.Path, index} {
			info, err := os.Lstat(name)
			switch {
			case err != nil:
				t.Fatal(err)
			case info.Mode()&os.ModeSymlink != 0:
				if info, _ := os.Stat(name); info.Mode() != 0o600 {
					t.Errorf("%s has mode %v", name, info.Mode())
				}
				continue
			}
			if err := errors.Join(os.Rename(name, name+".real"), os.Chmod(name+".real", 0o600), os.Symlink(filepath.Base(name)+".real", name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{archive.Path, index} {
		if info, err := os.Lstat(name); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s is no link any more", name)
		}
	}
	if err := errors.Join(os.Remove(index), unix.Mkfifo(index, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, n := range []endpoint.Name{layout, {Kind: endpoint.Archive, Path: index}} {
		if err := endpoint.CheckTarget(n); !errdefs.IsInvalidArgument(err) || strings.Count(err.Error(), "invalid argument") != 1 {
			t.Errorf("where a pipe is in the way: %v", err)
		}
	}
}
