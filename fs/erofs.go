package fs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// device is an open handle on what a mount uses as a device: the file that was
// measured is the file that is mounted, whatever its path names by then.
type device struct {
	fd   int
	name string // for messages
}

// openDevice opens path without reading it (O_PATH) and refuses a file that is
// not exactly size bytes long: EROFS itself mounts one that is too short, and
// fails when the missing part is read.
func openDevice(path string, size int64) (device, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return device{}, &os.PathError{Op: "open device", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err != nil {
		err = &os.PathError{Op: "stat device", Path: path, Err: err}
	} else if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size != size {
		err = fmt.Errorf("device %s: mode %o, %d bytes, want a regular file of %d: %w", path, st.Mode, st.Size, size, errdefs.ErrDataLoss)
	}
	if err != nil {
		unix.Close(fd)
		return device{}, err
	}
	return device{fd: fd, name: path}, nil
}

// path names the open file in an option.
func (d device) path() string { return fmt.Sprintf("/proc/self/fd/%d", d.fd) }

// maxOption is the longest value of an option, in bytes (fsconfig(2)).
const maxOption = 255

func (d device) close() { unix.Close(d.fd) }

// mountEROFS mounts the image read-only on dir. Options go to the kernel one a
// call: mount(2) takes one page of them, about 41 devices, and images have up to
// 127 layers. mount(8) must not be used at all: it makes loop devices.
func mountEROFS(image device, devices []device, dir string, directIO bool) error {
	fd, err := unix.Fsopen("erofs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("fsopen erofs: %w", err)
	}
	defer unix.Close(fd)
	source := image.name // what /proc/mounts shows
	if len(source) > maxOption {
		source = image.path()
	}
	if err := unix.FsconfigSetString(fd, "source", source); err != nil {
		return contextError(fd, "source "+image.name, err)
	}
	if directIO {
		if err := unix.FsconfigSetFlag(fd, "directio"); err != nil {
			return contextError(fd, "directio", err)
		}
	}
	for _, d := range devices {
		if err := unix.FsconfigSetString(fd, "device", d.path()); err != nil {
			return contextError(fd, "device "+d.name, err)
		}
	}
	if err := unix.FsconfigCreate(fd); err != nil {
		return contextError(fd, image.name, err)
	}
	mnt, err := unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_RDONLY)
	if err != nil {
		return contextError(fd, "fsmount", err)
	}
	defer unix.Close(mnt)
	if err := unix.MoveMount(mnt, "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return &os.PathError{Op: "move mount", Path: dir, Err: err}
	}
	return nil
}

// contextError adds what the kernel says about the failure of a mount.
func contextError(fd int, what string, err error) error {
	var said []string
	buf := make([]byte, 1024)
	for {
		n, rerr := unix.Read(fd, buf) // one message a read
		if rerr != nil || n <= 0 {
			break
		}
		said = append(said, string(bytes.TrimSpace(buf[:n])))
	}
	if len(said) > 0 {
		return fmt.Errorf("mount erofs: %s: %w (kernel: %s)", what, err, strings.Join(said, "; "))
	}
	return fmt.Errorf("mount erofs: %s: %w", what, err)
}

// unmount takes the mount at dir out of the name space. A mount that is busy
// stays alive for who uses it and goes with its last user.
func unmount(dir string) error {
	err := unix.Unmount(dir, unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EBUSY) {
		err = unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	}
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) { // EINVAL: not a mount
		return &os.PathError{Op: "unmount", Path: dir, Err: err}
	}
	return nil
}
