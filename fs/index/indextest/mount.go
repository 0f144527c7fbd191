package indextest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/pkg/archive"
	"github.com/containerd/log"
	"golang.org/x/sys/unix"
)

// Unpack unpacks layers, bottom first, as containerd's overlay snapshotter
// does, one directory each, which it returns in that order. The error is
// containerd's.
func Unpack(t testing.TB, layers ...[]byte) ([]string, error) {
	t.Helper()
	var dirs []string
	base := t.TempDir()
	for i, l := range layers {
		dir := filepath.Join(base, fmt.Sprint(i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		opts := []archive.ApplyOpt{archive.WithConvertWhiteout(archive.OverlayConvertWhiteout)}
		if i > 0 {
			parents := slices.Clone(dirs)
			slices.Reverse(parents)
			opts = append(opts, archive.WithParents(parents))
		}
		if _, err := archive.Apply(quiet(t.Context()), dir, bytes.NewReader(l), opts...); err != nil {
			return nil, err
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}

// quiet drops containerd's warnings about attributes that it ignores.
func quiet(ctx context.Context) context.Context {
	l := log.L.Dup()
	l.Logger = zero(l.Logger)
	return log.WithLogger(ctx, l)
}

// zero is a logger that logs nothing: its level is the lowest one.
func zero[T any](*T) *T { return new(T) }

// Overlay mounts directories, bottom first, read-only as one tree until the
// test ends.
func Overlay(t testing.TB, dirs ...string) string {
	t.Helper()
	lower := slices.Clone(dirs)
	slices.Reverse(lower)
	if len(lower) == 1 {
		lower = append(lower, t.TempDir())
	}
	fd, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		t.Fatalf("fsopen overlay: %v", err)
	}
	defer unix.Close(fd)
	for _, d := range lower {
		config(t, fd, "lowerdir+", d)
	}
	return attach(t, fd)
}

// EROFS writes img to a file and mounts it read-only with these files as
// devices until the test ends.
func EROFS(t testing.TB, img []byte, devices ...string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "index")
	if err := os.WriteFile(p, img, 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Fsopen("erofs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		t.Fatalf("fsopen erofs: %v", err)
	}
	defer unix.Close(fd)
	config(t, fd, "source", p)
	for _, d := range devices {
		config(t, fd, "device", d)
	}
	return attach(t, fd)
}

// Files writes each of contents to a file and returns their names.
func Files(t testing.TB, contents ...[]byte) []string {
	t.Helper()
	dir := t.TempDir()
	var names []string
	for i, c := range contents {
		p := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(p, c, 0o600); err != nil {
			t.Fatal(err)
		}
		names = append(names, p)
	}
	return names
}

func config(t testing.TB, fd int, key, value string) {
	t.Helper()
	if err := unix.FsconfigSetString(fd, key, value); err != nil {
		t.Fatalf("fsconfig %s=%s: %v%s", key, value, err, reasons(fd))
	}
}

func attach(t testing.TB, fd int) string {
	t.Helper()
	if err := unix.FsconfigCreate(fd); err != nil {
		t.Fatalf("fsconfig create: %v%s", err, reasons(fd))
	}
	m, err := unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_RDONLY)
	if err != nil {
		t.Fatalf("fsmount: %v%s", err, reasons(fd))
	}
	defer unix.Close(m)
	dir := t.TempDir()
	if err := unix.MoveMount(m, "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		t.Fatalf("move_mount: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("umount %s: %v", dir, err)
		}
	})
	return dir
}

// reasons returns what the kernel logged to a file system context.
func reasons(fd int) string {
	var all strings.Builder
	for buf := make([]byte, 1024); ; {
		n, err := unix.Read(fd, buf)
		if err != nil || n == 0 {
			return all.String()
		}
		all.WriteString("\n\t" + string(buf[:n]))
	}
}
