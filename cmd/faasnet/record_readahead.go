package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/containerd/containerd/v2/core/mount"
	"golang.org/x/sys/unix"
)

// readahead is how much the kernel reads ahead while an image is recorded, in
// KiB: its default, and what a mounted image has. Many systems have more for
// their disks, which makes files look used that are not.
const readahead = 128

// lessReadahead lowers the readahead of the disk that the lower directories of
// mounts are on, where it is higher. Call restore in any case.
func lessReadahead(mounts []mount.Mount) (restore func() error, err error) {
	none := func() error { return nil }
	dir := lowerDir(mounts)
	if dir == "" {
		return none, nil
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return none, &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	name := fmt.Sprintf("/sys/class/bdi/%d:%d/read_ahead_kb", unix.Major(st.Dev), unix.Minor(st.Dev))
	old, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return none, nil // no disk of its own
	}
	if err != nil {
		return none, err
	}
	if n, err := strconv.Atoi(strings.TrimSpace(string(old))); err != nil || n <= readahead {
		return none, err
	}
	if err := os.WriteFile(name, []byte(strconv.Itoa(readahead)), 0); err != nil {
		return none, err
	}
	return func() error { return os.WriteFile(name, old, 0) }, nil
}

// lowerDir is a directory of the host that has files of the image.
func lowerDir(mounts []mount.Mount) string {
	if len(mounts) == 0 {
		return ""
	}
	for _, o := range mounts[0].Options {
		if dirs, ok := strings.CutPrefix(o, "lowerdir="); ok {
			first, _, _ := strings.Cut(dirs, ":")
			return first
		}
	}
	if mounts[0].Type == "bind" {
		return mounts[0].Source
	}
	return ""
}
