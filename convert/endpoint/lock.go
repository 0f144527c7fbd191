package endpoint

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockPoll is how often a lock that another process holds is tried.
const lockPoll = 50 * time.Millisecond

// lock makes the directory if it is not there and keeps other processes that
// write into it out until unlock. File systems that know no locks have none.
func (d layoutDir) lock(ctx context.Context, undo *undoList) (unlock func(), err error) {
	for {
		if err := undo.mkdir(string(d)); err != nil {
			return nil, err
		}
		f, err := os.Open(string(d))
		if errors.Is(err, os.ErrNotExist) { // who made it has failed and taken it away
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := Lock(ctx, f, func() {}); err != nil {
			f.Close()
			return nil, err
		}
		if d.is(f) {
			return func() { f.Close() }, nil
		}
		f.Close()
	}
}

// Lock waits until no other process has a lock on f, and locks it until f is
// closed or this process ends. blocked is called once if it has to wait. The error
// is why ctx has ended. File systems that know no locks have none.
func Lock(ctx context.Context, f *os.File, blocked func()) error {
	for ; ; blocked = func() {} {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil
		}
		blocked()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lockPoll):
		}
	}
}

// is tells whether the directory is still the one that f was opened as.
func (d layoutDir) is(f *os.File) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(string(d))
	return err == nil && os.SameFile(opened, now)
}
