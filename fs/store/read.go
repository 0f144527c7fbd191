package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/fs/block"
)

// ReadBlock is that of block.Source. The bytes are verified: by whoever called
// Put, or here on the first read after Open. A block that turns out to be
// damaged is dropped and reported as not found.
func (s *Store) ReadBlock(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return dst, err
	}
	e, verified, err := s.lookup(ref)
	if err != nil {
		return dst, err
	}
	n := len(dst)
	p, err := readFile(s.path(ref.Sum, e.section), ref.Size, dst)
	switch {
	case errors.Is(err, unix.ENOENT):
		s.drop(e) // evicted since the look-up, or somebody else's rm
		return dst, missing(ref)
	case errors.Is(err, errSize), errors.Is(err, unix.EIO):
		// damaged, or ref lies about the size: it costs a fetch at most
	case err != nil:
		return dst, fmt.Errorf("store: %v: %w: %w", ref, err, errdefs.ErrUnavailable)
	case verified:
		return p, nil
	default:
		err = ref.Verify(p[n:])
	}
	if err != nil {
		s.drop(e)
		level := log.DebugLevel
		if s.metrics.damaged.Add(1) == 1 {
			level = log.WarnLevel // once: after a power failure there may be thousands
		}
		log.G(ctx).WithError(err).Log(level, "dropped a block that was damaged by a crash or on disk, it is fetched again")
		return dst, fmt.Errorf("store: %v was damaged: %w", ref, errdefs.ErrNotFound)
	}
	s.mu.Lock()
	e.verified = true
	s.mu.Unlock()
	return p, nil
}

// Has reports whether the store has the block, without reading it.
func (s *Store) Has(ref block.Ref) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.index.entries[ref.Sum] != nil
}

// lookup finds the entry of ref, makes it the one used last and remembers that
// ref's blob wants it.
func (s *Store) lookup(ref block.Ref) (*entry, bool, error) {
	s.mu.Lock()
	e := s.index.entries[ref.Sum]
	if e == nil {
		s.mu.Unlock()
		return nil, false, missing(ref)
	}
	s.index.touch(e)
	verified := e.verified
	owned := slices.ContainsFunc(e.owners, func(b *blob) bool { return b.digest == ref.Blob })
	s.mu.Unlock()
	if !owned {
		s.own(ref, e)
	}
	return e, verified, nil
}

// drop forgets e and removes its file, unless a good copy took its place.
func (s *Store) drop(e *entry) {
	stripe := s.stripe(e.sum)
	stripe.Lock()
	defer stripe.Unlock()
	s.mu.Lock()
	current := s.index.entries[e.sum] == e
	if current {
		s.index.remove(e)
	}
	s.mu.Unlock()
	if current {
		_ = unix.Unlink(s.path(e.sum, e.section)) // what remains is dropped at the next Open or overwritten
	}
}

// missing is the error of a block that is not there: it happens to every block
// once, so its text is made only if somebody reads it.
type missing block.Ref

func (m missing) Error() string { return fmt.Sprintf("store: %v: not found", block.Ref(m)) }

// Unwrap gives the error its kind.
func (missing) Unwrap() error { return errdefs.ErrNotFound }

var errSize = errors.New("wrong size")

// readFile appends the content of path, which must be size bytes, to dst. It
// uses the bare system calls: an os.File costs an allocation and an epoll_ctl.
func readFile(path string, size int, dst []byte) ([]byte, error) {
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return dst, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return dst, err
	}
	if st.Size != int64(size) {
		return dst, fmt.Errorf("file of %d bytes, want %d: %w", st.Size, size, errSize)
	}
	n := len(dst)
	dst = slices.Grow(dst, size)
	for p := dst[n : n+size]; len(p) > 0; {
		m, err := retry(func() (int, error) { return unix.Pread(fd, p, int64(size-len(p))) })
		if err != nil {
			return dst, err
		}
		if m == 0 {
			return dst, fmt.Errorf("file ends %d bytes early: %w", len(p), errSize)
		}
		p = p[m:]
	}
	return dst[:n+size], nil
}

// retry calls f again for as long as a signal interrupts it.
func retry(f func() (int, error)) (int, error) {
	for {
		n, err := f()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
