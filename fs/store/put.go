package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/fs/block"
)

// Put keeps p, the block that ref names, which the caller has verified. The
// store keeps no reference to p. Blocks used least recently make room for it.
// A block that is there already is not written again, one of a blob that is not
// live is not kept, without an error. On error nothing of the
// block is there; the error matches errdefs.ErrResourceExhausted when the disk
// is full.
func (s *Store) Put(ctx context.Context, ref block.Ref, p []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(p) != ref.Size || ref.Number < block.Section || ref.Number >= block.MaxBlocks {
		return fmt.Errorf("store: put %v: %d bytes for a block of %d: %w", ref, len(p), ref.Size, errdefs.ErrInvalidArgument)
	}
	if !s.lives(ref.Blob) {
		return nil
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
	err = s.write(&entry{
		sum: ref.Sum, size: onDisk(int64(len(p))), section: ref.Number == block.Section,
		verified: true, owners: []*blob{owner},
	}, p)
	if !s.lives(ref.Blob) { // died meanwhile, and Retain may have looked before the block was there
		return errors.Join(err, s.disown(owner, ref.Sum))
	}
	return err
}

// write makes room for e, writes p as its file and enters it in the index. The
// file has its final name from the start: nobody reads it before it is in the
// index, and what a crash cuts short is found by its size or sum.
func (s *Store) write(e *entry, p []byte) error {
	if s.served(e) {
		return nil
	}
	if !e.section && e.size > s.opts.MaxBytes {
		return fmt.Errorf("larger than the whole store: %w", errdefs.ErrResourceExhausted)
	}
	s.mu.Lock()
	if !e.section {
		s.index.bytes += e.size
	}
	victims := s.victims(s.opts.MaxBytes)
	s.mu.Unlock()
	s.unlink(victims)

	stripe := s.stripe(e.sum)
	stripe.Lock()
	defer stripe.Unlock()
	there := s.served(e) // two callers at once
	var err error
	if !there {
		err = writeFile(s.path(e.sum, e.section), p)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !e.section && (err != nil || there) {
		s.index.bytes -= e.size
	}
	if there {
		return nil
	}
	old := s.index.entries[e.sum] // unverified, or a block that turns out to be a section
	if old != nil && (err == nil || old.section == e.section) {
		for _, b := range old.owners {
			e.own(b)
		}
		s.index.remove(old)
		if old.section != e.section {
			_ = unix.Unlink(s.path(old.sum, old.section))
		}
	}
	if err == nil {
		s.index.insert(e, true)
	}
	return err
}

// served reports whether e need not be written, and lets what serves it know
// its owner.
func (s *Store) served(e *entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.index.entries[e.sum]
	if !old.serves(e) {
		return false
	}
	old.own(e.owners[0])
	return true
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

// writeFile creates path with content p, in the place of what is there. On
// error there is no file.
func writeFile(path string, p []byte) error {
	create := func() (int, error) {
		return unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	}
	fd, err := retry(create)
	if errors.Is(err, unix.EEXIST) { // whoever has it open keeps it
		_ = unix.Unlink(path)
		fd, err = retry(create)
	}
	if err != nil {
		_ = unix.Unlink(path)
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
