package node

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/fs/index/indextest"
	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

// public is a directory that everybody may go to.
func public(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; len(d) >= len(os.TempDir()); d = filepath.Dir(d) {
		fi, err := os.Stat(d)
		if err == nil {
			err = os.Chmod(d, fi.Mode()|0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// both are the ways in which a container gets at an image: what a View of one
// layer is, the mount itself, and an overlay that can be written to.
func both(t *testing.T, dir string) map[string]string {
	t.Helper()
	bind := public(t)
	if err := unix.Mount(dir, bind, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unmount(t, bind) })
	return map[string]string{"view": bind, "container": writable(t, dir)}
}

// writable is the root file system of a container over dirs, top first.
func writable(t *testing.T, dirs ...string) string {
	t.Helper()
	root, state := public(t), public(t)
	upper, work := filepath.Join(state, "upper"), filepath.Join(state, "work")
	for _, d := range []string{upper, work} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("overlay", root, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", strings.Join(dirs, ":"), upper, work)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unmount(t, root) })
	return root
}

func unmount(t *testing.T, dir string) {
	t.Helper()
	if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
		t.Errorf("unmount %s: %v", dir, err)
	}
}

// as runs a program as another user, from a shell: until a child of ours has become
// its program one of our threads stands still, which the collector waits for, and a
// program on a mount is read from ourselves.
func as(uid uint32, argv ...string) (string, error) {
	cmd := exec.Command("/bin/sh", append([]string{"-c", `exec "$0" "$@"`}, argv...)...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

const nobody = 65534

// A program that is set-uid root is so, and a device is one, in both.
func TestFU02_SetuidAndDevices(t *testing.T) {
	id, err := os.ReadFile("/usr/bin/id")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldOf(t, registrytest.Options{}, tarOf(indextest.Header{Name: "id", Body: string(id), Mode: 0o4755},
		indextest.Header{Name: "null", Type: '3', Mode: 0o666, Major: 1, Minor: 3}))
	d := start(t, t.TempDir(), w.config())
	for name, root := range both(t, d.mount(t, "c", w.labels)) {
		if who, err := as(nobody, filepath.Join(root, "id"), "-u"); err != nil || who != "0" {
			t.Errorf("%s: set-uid id says %q, %v", name, who, err)
		}
		if _, err := as(nobody, "/bin/sh", "-c", "echo x > "+filepath.Join(root, "null")); err != nil {
			t.Errorf("%s: write to the null device: %v", name, err)
		}
	}
}

// Modes and owners hold for those who are not root, in both.
func TestFU03_Permissions(t *testing.T) {
	w := newWorldOf(t, registrytest.Options{}, tarOf(
		indextest.Header{Name: "mine", Body: "mine", Mode: 0o600, UID: 1000, GID: 1000},
		indextest.Header{Name: "dir/", Type: '5', Mode: 0o700, UID: 1000, GID: 1000},
		indextest.Header{Name: "dir/open", Body: "open", Mode: 0o644},
		indextest.Header{Name: "all", Body: "all", Mode: 0o644}))
	d := start(t, t.TempDir(), w.config())
	for name, root := range both(t, d.mount(t, "c", w.labels)) {
		for file, want := range map[string]string{"mine": "mine", "dir/open": "open", "all": "all"} {
			path := filepath.Join(root, file)
			if got, err := as(1000, "/bin/cat", path); err != nil || got != want {
				t.Errorf("%s: the owner reads %q of %s, %v", name, got, file, err)
			}
			got, err := as(nobody, "/bin/cat", path)
			if denied := err != nil && strings.Contains(err.Error(), "Permission denied"); denied != (file != "all") {
				t.Errorf("%s: a stranger reads %q of %s, %v", name, got, file, err)
			}
		}
	}
}

// What containers do to files of the image fails, or does not, as it does over
// unpacked layers.
func TestFU07_SameErrors(t *testing.T) {
	w := newWorld(t)
	d := start(t, t.TempDir(), w.config())
	lazy := writable(t, d.mount(t, "c", w.labels))
	want := writable(t, topFirst(w.dirs)...)
	for _, c := range []struct {
		name string
		do   func(root string) error
	}{
		{"readdir of each directory", func(root string) error {
			return filepath.WalkDir(root, func(_ string, _ fs.DirEntry, err error) error { return err })
		}},
		{"list of attributes", func(root string) error {
			_, err := unix.Listxattr(filepath.Join(root, "big"), make([]byte, 1000))
			return err
		}},
		{"attribute that is not there", func(root string) error {
			_, err := unix.Getxattr(filepath.Join(root, "big"), "user.none", make([]byte, 10))
			return err
		}},
		{"chmod", func(root string) error { return unix.Chmod(filepath.Join(root, "usr/bin/tool"), 0o700) }},
		{"append", func(root string) error {
			return within(root, "gone/new", unix.O_WRONLY|unix.O_APPEND, func(fd int) error { _, err := unix.Write(fd, []byte("x")); return err })
		}},
		{"fallocate", func(root string) error {
			return within(root, "big", unix.O_RDWR, func(fd int) error { return unix.Fallocate(fd, 0, 0, 5<<20) })
		}},
		{"fallocate of a file opened to read", func(root string) error {
			return within(root, "etc/shadow", unix.O_RDONLY, func(fd int) error { return unix.Fallocate(fd, 0, 0, 10) })
		}},
		{"set an attribute", func(root string) error {
			return unix.Setxattr(filepath.Join(root, "usr/bin"), "user.k", []byte("v"), 0)
		}},
		{"rename a directory", func(root string) error { return unix.Rename(filepath.Join(root, "gone"), filepath.Join(root, "moved")) }},
		{"link", func(root string) error {
			return unix.Link(filepath.Join(root, "usr/bin/tool"), filepath.Join(root, "hard"))
		}},
		{"file without a name", func(root string) error {
			return within(root, "usr", unix.O_TMPFILE|unix.O_RDWR, func(int) error { return nil })
		}},
		{"remove a full directory", func(root string) error { return unix.Rmdir(filepath.Join(root, "usr")) }},
		{"direct reads", func(root string) error {
			return within(root, "big", unix.O_RDONLY|unix.O_DIRECT, func(int) error { return nil })
		}},
	} {
		got, want := c.do(lazy), c.do(want)
		if got != want { //nolint:errorlint // both are numbers
			t.Errorf("%s: %v, over unpacked layers %v", c.name, got, want)
		}
	}
	// The image and what a container writes are two file systems: a copy without
	// a detour is refused as between any two, and programs then read and write.
	if err := within(lazy, "usr/bin/alias", unix.O_RDONLY, func(in int) error {
		return within(lazy, "new", unix.O_RDWR|unix.O_CREAT, func(out int) error {
			_, err := unix.CopyFileRange(in, nil, out, nil, 1<<20, 0)
			return err
		})
	}); err != nil && err != unix.EXDEV { //nolint:errorlint // a number
		t.Errorf("copy_file_range out of the image: %v", err)
	}
	// The kernel's EROFS has no flags of files. Programs are told so as on any
	// file system without them, and have them once the file is copied up.
	flags := func(name string) error {
		return within(lazy, name, unix.O_RDONLY, func(fd int) error { _, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS); return err })
	}
	if err := flags("etc"); err != nil && err != unix.ENOTTY { //nolint:errorlint // a number
		t.Errorf("lsattr of the image: %v", err)
	}
	if err := flags("usr/bin/tool"); err != nil {
		t.Errorf("lsattr after chmod: %v", err)
	}
}

// within opens a file for f.
func within(root, name string, flags int, f func(fd int) error) error {
	fd, err := unix.Open(filepath.Join(root, name), flags|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return f(fd)
}
