// Package opens sees what processes open in a file tree, by fanotify. It needs
// CAP_SYS_ADMIN.
package opens

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// Watch collects the regular files that are opened in a tree, by whatever
// process, in the order in which each was first opened: also those that are
// executed and those that are opened to be mapped.
type Watch struct {
	root   *os.File // the tree's root, in whatever mount namespace
	prefix string   // of names in the tree, in that namespace
	events int      // the fanotify group
	kind   uint     // of its mark
	stop   *os.File // closed: read what is there and end
	done   chan error
	order  []string        // of loop, until done has its value
	seen   map[string]bool // of loop
}

// Start watches the tree at root, which may be the root directory of another
// process (/proc/PID/root). Of an overlay it sees all mounts, of any other file
// system the mount that root is on: its file system holds more than the tree.
func Start(root string) (_ *Watch, err error) {
	w := &Watch{events: -1, done: make(chan error, 1), seen: make(map[string]bool)}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.root, err = os.OpenFile(root, unix.O_PATH|unix.O_DIRECTORY, 0); err != nil {
		return nil, err
	}
	name, err := nameOf(int(w.root.Fd()))
	if err != nil {
		return nil, err
	}
	w.prefix = strings.TrimSuffix(name, "/") + "/"
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(w.root.Fd()), &fs); err != nil {
		return nil, os.NewSyscallError("statfs", err)
	}
	w.kind = unix.FAN_MARK_MOUNT
	if fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
		w.kind = unix.FAN_MARK_FILESYSTEM
	}
	// Events have files that the kernel opens: with O_NONBLOCK, since a pipe would
	// wait for a writer.
	w.events, err = unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK|unix.FAN_UNLIMITED_QUEUE, unix.O_RDONLY|unix.O_LARGEFILE|unix.O_CLOEXEC|unix.O_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("fanotify_init", err)
	}
	if err := unix.FanotifyMark(w.events, unix.FAN_MARK_ADD|w.kind, unix.FAN_OPEN, unix.AT_FDCWD, root); err != nil {
		return nil, os.NewSyscallError("fanotify_mark", err)
	}
	stopped, stop, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	w.stop = stop
	go func() {
		defer stopped.Close()
		w.done <- w.loop(int(stopped.Fd()))
	}()
	return w, nil
}

// Stop ends the watch and returns the files that were opened until then, with
// paths relative to the root and without symbolic links. Files without a name
// in the tree are left out: deleted ones, and those on other mounts.
func (w *Watch) Stop() ([]string, error) {
	// Else a tree in which files are opened all the time would never come to an end.
	unmark := unix.FanotifyMark(w.events, unix.FAN_MARK_FLUSH|w.kind, 0, unix.AT_FDCWD, "/")
	w.stop.Close()
	err := <-w.done
	w.close()
	return w.order, errors.Join(err, os.NewSyscallError("fanotify_mark", unmark))
}

func (w *Watch) close() {
	if w.root != nil {
		w.root.Close()
	}
	if w.events >= 0 {
		unix.Close(w.events)
	}
}

// loop reads events until the other end of the pipe stopped is closed and there
// are no more.
func (w *Watch) loop(stopped int) error {
	buf := make([]byte, 64<<10)
	for last := false; ; {
		if !last {
			fds := []unix.PollFd{{Fd: int32(w.events), Events: unix.POLLIN}, {Fd: int32(stopped)}}
			if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
				return os.NewSyscallError("poll", err)
			}
			last = fds[1].Revents != 0
		}
		n, err := unix.Read(w.events, buf)
		switch {
		case errors.Is(err, unix.EAGAIN):
			if last {
				return nil
			}
			continue
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return os.NewSyscallError("fanotify", err)
		}
		if err := w.take(buf[:n]); err != nil {
			return err
		}
	}
}

// take looks at the events in b.
func (w *Watch) take(b []byte) error {
	const size = unix.FAN_EVENT_METADATA_LEN
	for len(b) >= size {
		// struct fanotify_event_metadata
		length, version := int(binary.NativeEndian.Uint32(b)), b[4]
		mask, fd := binary.NativeEndian.Uint64(b[8:]), int(int32(binary.NativeEndian.Uint32(b[16:])))
		if version != unix.FANOTIFY_METADATA_VERSION || length < size || length > len(b) {
			return fmt.Errorf("fanotify: event of version %d and %d bytes: %w", version, length, errdefs.ErrNotImplemented)
		}
		if mask&unix.FAN_Q_OVERFLOW != 0 {
			return fmt.Errorf("fanotify: events were lost: %w", errdefs.ErrUnavailable)
		}
		if fd >= 0 {
			w.opened(fd)
			unix.Close(fd)
		}
		b = b[length:]
	}
	return nil
}

// opened notes the file that fd is open on.
func (w *Watch) opened(fd int) {
	name, err := nameOf(fd)
	if err != nil {
		return
	}
	name, ok := strings.CutPrefix(name, w.prefix)
	if !ok || w.seen[name] {
		return
	}
	// The name is that in the mount namespace of whoever opened it: it counts
	// if it leads to the same file.
	var got, want unix.Stat_t
	if unix.Fstat(fd, &got) != nil || got.Mode&unix.S_IFMT != unix.S_IFREG {
		return
	}
	if unix.Fstatat(int(w.root.Fd()), name, &want, unix.AT_SYMLINK_NOFOLLOW) != nil || got.Dev != want.Dev || got.Ino != want.Ino {
		return
	}
	w.seen[name] = true
	w.order = append(w.order, name)
}

// nameOf is the name of an open file in the mount namespace that it was opened
// in.
func nameOf(fd int) (string, error) { return os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)) }
