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

// lessReadahead lowers the readahead of the disks that dirs are on, where it is
// higher, and calls tell before: who kills the process must know what it was.
// sys is where sysfs is. Call restore in any case.
func lessReadahead(sys string, dirs []string, tell func(disk string, kib int)) (restore func() error, err error) {
	var undo []func() error
	restore = func() (err error) {
		for _, f := range undo {
			err = errors.Join(err, f())
		}
		return err
	}
	for _, dir := range dirs {
		var st unix.Stat_t
		if err := unix.Stat(dir, &st); err != nil {
			return restore, &os.PathError{Op: "stat", Path: dir, Err: err}
		}
		name, old, err := readaheadOf(sys, st.Dev)
		if err != nil {
			return restore, err
		}
		if old <= readahead { // also once it is lowered
			continue
		}
		tell(name, old)
		undo = append(undo, func() error { return os.WriteFile(name, []byte(strconv.Itoa(old)), 0) })
		if err := os.WriteFile(name, []byte(strconv.Itoa(readahead)), 0); err != nil {
			return restore, err
		}
	}
	return restore, nil
}

// readaheadOf is the readahead of the disk with the device number dev, or of which
// that is a partition, and the file that says so. 0: it is no disk.
func readaheadOf(sys string, dev uint64) (name string, kib int, err error) {
	for _, of := range []string{"", "/.."} {
		name = fmt.Sprintf("%s/dev/block/%d:%d%s/bdi/read_ahead_kb", sys, unix.Major(dev), unix.Minor(dev), of)
		text, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			kib, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return name, kib, err
	}
	return "", 0, nil
}

// lowerDirs are the directories of the host that have files of the image.
func lowerDirs(mounts []mount.Mount) (out []string) {
	for _, m := range mounts {
		if m.Type == "bind" {
			out = append(out, m.Source)
		}
		for _, o := range m.Options {
			if dirs, ok := strings.CutPrefix(o, "lowerdir="); ok {
				out = append(out, strings.Split(dirs, ":")...)
			}
		}
	}
	return out
}
