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
// higher, and calls tell before. sys is where sysfs is. What it was is kept in
// the file named, for restoreReadahead, which is to be called in any case.
func lessReadahead(sys, file string, dirs []string, tell func(disk string, kib int)) error {
	for _, dir := range dirs {
		var st unix.Stat_t
		if err := unix.Stat(dir, &st); err != nil {
			return &os.PathError{Op: "stat", Path: dir, Err: err}
		}
		name, old, err := readaheadOf(sys, st.Dev)
		if err != nil {
			return err
		}
		if old <= readahead { // also once it is lowered
			continue
		}
		if err := addLine(file, fmt.Sprintf("%d %s\n", old, name)); err != nil {
			return err
		}
		tell(name, old)
		if err := os.WriteFile(name, []byte(strconv.Itoa(readahead)), 0); err != nil {
			return err
		}
	}
	return nil
}

// addLine adds a line to a file.
func addLine(file, line string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	return errors.Join(err, f.Close())
}

// restoreReadahead undoes what lessReadahead has done, as the file says, and
// removes it. A disk whose readahead somebody has set since, or that is gone, is
// left alone. Without the file there is nothing to do.
func restoreReadahead(sys, file string) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for l := range strings.Lines(string(text)) {
		old, name, _ := strings.Cut(strings.TrimSuffix(l, "\n"), " ")
		if _, err := strconv.Atoi(old); err != nil || !strings.HasPrefix(name, sys+"/dev/block/") || !strings.HasSuffix(l, "/bdi/read_ahead_kb\n") {
			continue // the process was killed before it was written, and so before anything was changed
		}
		now, err := os.ReadFile(name)
		if err == nil && strings.TrimSpace(string(now)) == strconv.Itoa(readahead) {
			err = os.WriteFile(name, []byte(old), 0)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("readahead was %s: %w", old, err)
		}
	}
	return os.Remove(file)
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
