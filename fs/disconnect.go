package fs

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// disconnect takes the FUSE mount away and waits for its server to end. Another
// mount name space may hold a copy of the mount (a container that was starting
// copied it): the connection then never ends by itself, and is aborted.
func (f *FS) disconnect() error {
	err := unmount(f.conn.dir)
	f.start() // a server that never ran must see the end to free its descriptor
	grace := time.NewTimer(f.o.Grace)
	defer grace.Stop()
	select {
	case <-f.ended:
		return err
	case <-grace.C:
	}
	f.metrics.aborts.Inc()
	if aerr := abort(f.conn.minor); aerr != nil {
		return errors.Join(err, aerr) // do not wait: it may never end
	}
	<-f.ended
	return err
}

// abort ends FUSE connection n: all that wait for it get an error. The control
// file system is mounted for this call only, and nowhere: /sys/fs/fuse may not
// have it, and other tools may not expect it there.
func abort(n int) error {
	fd, err := unix.Fsopen("fusectl", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("abort FUSE connection %d: fsopen fusectl: %w", n, err)
	}
	defer unix.Close(fd)
	if err := unix.FsconfigCreate(fd); err != nil {
		return fmt.Errorf("abort FUSE connection %d: %w", n, contextError(fd, "fusectl", err))
	}
	mnt, err := unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("abort FUSE connection %d: %w", n, contextError(fd, "fusectl", err))
	}
	defer unix.Close(mnt)
	file, err := unix.Openat(mnt, fmt.Sprintf("%d/abort", n), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil // it has ended
	}
	if err != nil {
		return fmt.Errorf("abort FUSE connection %d: %w", n, err)
	}
	defer unix.Close(file)
	if _, err := unix.Write(file, []byte("1")); err != nil {
		return fmt.Errorf("abort FUSE connection %d: %w", n, os.NewSyscallError("write", err))
	}
	return nil
}
