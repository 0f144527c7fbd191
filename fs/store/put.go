package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/fs/block"
)

// Put keeps p, the block that ref names, which the caller has verified. The
// store keeps no reference to p. Blocks used least recently make room for it.
// A block that is there already is not written again. On error nothing of the
// block is there; the error matches errdefs.ErrResourceExhausted when the disk
// is full.
func (s *Store) Put(ctx context.Context, ref block.Ref, p []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(p) != ref.Size || ref.Number < block.Section || ref.Number >= block.MaxBlocks {
		return fmt.Errorf("store: put %v: %d bytes for a block of %d: %w", ref, len(p), ref.Size, errdefs.ErrInvalidArgument)
	}
	err := s.put(ref, p)
	if isFull(err) && s.relieve(onDisk(int64(len(p)))) {
		err = s.put(ref, p)
	}
	if err != nil {
		return fmt.Errorf("store: put %v: %w", ref, diskFull(err))
	}
	return nil
}

func (s *Store) put(ref block.Ref, p []byte) error {
	owner, err := s.record(ref) // before the block: a block on disk always has an owner
	if err != nil {
		return err
	}
	return s.write(&entry{
		sum: ref.Sum, size: onDisk(int64(len(p))), section: ref.Number == block.Section,
		verified: true, owners: []*blob{owner},
	}, p)
}

// write makes room for e, writes p as its file and enters it in the index.
func (s *Store) write(e *entry, p []byte) error {
	s.mu.Lock()
	if old := s.index.entries[e.sum]; old.serves(e) {
		old.own(e.owners[0])
		s.mu.Unlock()
		return nil
	}
	if !e.section && e.size > s.opts.MaxBytes {
		s.mu.Unlock()
		return fmt.Errorf("larger than the whole store: %w", errdefs.ErrResourceExhausted)
	}
	if !e.section {
		s.index.bytes += e.size
	}
	victims := s.victims(s.opts.MaxBytes)
	s.mu.Unlock()
	s.unlink(victims)

	tmp := filepath.Join(s.root, "tmp", strconv.FormatUint(s.tmp.Add(1), 10))
	err := writeFile(tmp, p)
	stripe := s.stripe(e.sum)
	stripe.Lock()
	defer stripe.Unlock()
	if err == nil {
		err = move(tmp, s.path(e.sum, e.section))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.index.entries[e.sum]
	if !e.section && (err != nil || old.serves(e)) {
		s.index.bytes -= e.size
	}
	switch {
	case err != nil:
		return err
	case old.serves(e): // two callers at once
		if old.section != e.section {
			_ = unix.Unlink(s.path(e.sum, e.section))
		}
		old.own(e.owners[0])
		return nil
	case old != nil: // unverified, or a block that turns out to be a section
		for _, b := range old.owners {
			e.own(b)
		}
		s.index.remove(old)
		if old.section != e.section {
			_ = unix.Unlink(s.path(old.sum, old.section))
		}
	}
	s.index.insert(e, true)
	return nil
}

// serves reports whether want need not be written since e is there.
func (e *entry) serves(want *entry) bool {
	return e != nil && e.verified && (e.section || !want.section)
}

// victims takes the blocks used least recently out of the index until at most
// limit bytes are left. The caller holds mu, and unlinks them without it.
func (s *Store) victims(limit int64) []*entry {
	var out []*entry
	for s.index.bytes > limit {
		e := s.index.oldest()
		if e == nil {
			break
		}
		s.index.remove(e)
		out = append(out, e)
	}
	s.metrics.evictedBlocks.Add(int64(len(out)))
	return out
}

// unlink removes the files of entries that left the index. A block that was
// put again meanwhile stays. Readers that have the file open are not disturbed.
func (s *Store) unlink(victims []*entry) {
	for _, e := range victims {
		stripe := s.stripe(e.sum)
		stripe.Lock()
		s.mu.Lock()
		again := s.index.entries[e.sum]
		s.mu.Unlock()
		if again == nil || again.section != e.section {
			_ = unix.Unlink(s.path(e.sum, e.section)) // a file that stays is found by the next Open
		}
		stripe.Unlock()
	}
}

// writeFile creates path with content p. On error there is no file.
func writeFile(path string, p []byte) error {
	fd, err := retry(func() (int, error) {
		return unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	})
	if err != nil {
		return err
	}
	err = pwrite(fd, p, 0)
	if e := unix.Close(fd); err == nil {
		err = e
	}
	if err != nil {
		_ = unix.Unlink(path)
	}
	return err
}

// move renames tmp to path and makes path's directory where it is missing. On
// error there is neither file.
func move(tmp, path string) error {
	err := unix.Rename(tmp, path)
	if err == unix.ENOENT {
		if err = unix.Mkdir(filepath.Dir(path), 0o700); err == nil || err == unix.EEXIST {
			err = unix.Rename(tmp, path)
		}
	}
	if err != nil {
		_ = unix.Unlink(tmp)
	}
	return err
}

// pwrite writes all of p at off.
func pwrite(fd int, p []byte, off int64) error {
	for len(p) > 0 {
		n, err := retry(func() (int, error) { return unix.Pwrite(fd, p, off) })
		if err != nil {
			return err
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}

func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// diskFull gives a full disk its name in our vocabulary.
func diskFull(err error) error {
	if isFull(err) {
		return fmt.Errorf("%w: %w", err, errdefs.ErrResourceExhausted)
	}
	return err
}

// relieve is for a disk that is full although the limits are not reached: it
// gives some of our own space back and reports whether there was any.
func (s *Store) relieve(need int64) bool {
	s.mu.Lock()
	before := s.index.bytes
	victims := s.victims(max(0, before-4*need))
	s.mu.Unlock()
	s.unlink(victims)
	return len(victims) > 0
}
