package images

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
)

var shell = []string{"/bin/sh", "-c"}

func imageA(ctx context.Context, w *Writer, work string, _ io.Writer) ([]string, error) {
	root, err := busybox(ctx, work)
	if err != nil {
		return nil, err
	}
	w.Add("busybox", Dir(root))
	return append(shell, "echo READY"), nil
}

// busybox lays out a root directory that holds busybox and little else.
func busybox(ctx context.Context, work string) (root string, err error) {
	a, err := newApt(filepath.Join(work, "apt"))
	if err != nil {
		return "", err
	}
	if err := a.download(ctx, []string{"busybox-static"}); err != nil {
		return "", err
	}
	root = filepath.Join(work, "busybox")
	for _, d := range []string{"etc", "proc", "sys", "dev", "tmp", "root", "usr"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			return "", err
		}
	}
	if err := a.unpack(ctx, "busybox-static", root); err != nil {
		return "", err
	}
	if err := os.Symlink("usr/bin", filepath.Join(root, "bin")); err != nil {
		return "", err
	}
	list, err := runIn(ctx, root, filepath.Join(root, "bin/busybox"), "--list")
	for _, applet := range strings.Fields(list) {
		if err := os.Symlink("busybox", filepath.Join(root, "bin", applet)); err != nil && !os.IsExist(err) {
			return "", err
		}
	}
	return root, err
}
