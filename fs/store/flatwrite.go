package store

import (
	"fmt"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// Write makes data, all of block i decoded, present. A block that is present
// already is left alone. Blocks used least recently make room. The error
// matches errdefs.ErrResourceExhausted when there is no room, within MaxFlatBytes
// or on the disk; the block is absent then.
func (f *Flat) Write(i int, data []byte) error {
	if i < 0 || i >= f.blocks {
		return fmt.Errorf("store: %v has no block %d: %w", f.id.Blob, i, errdefs.ErrOutOfRange)
	}
	off, n := f.span(i)
	if int64(len(data)) != n {
		return fmt.Errorf("store: %d bytes for block %d of %v, want %d: %w", len(data), i, f.id.Blob, n, errdefs.ErrInvalidArgument)
	}
	ok, err := f.claim(i)
	if err == nil && ok {
		err = f.fill(i, data, off)
		if isFull(err) && (f.store.relieve(n) || f.store.makeRoom(4*n) > 0) {
			err = f.fill(i, data, off)
		}
		f.mu.Lock()
		if err == nil {
			f.present.set(i)
			f.recent.set(i)
			f.count++
		}
		f.settle(i)
		f.mu.Unlock()
	}
	if err != nil {
		return fmt.Errorf("store: block %d of flat file of %v: %w", i, f.id.Blob, diskFull(err))
	}
	f.store.flats.trim(f.store.opts.MaxOpenFlat)
	return nil
}

// claim makes block i busy for the caller, who owes settle. It reports false
// if the block is present: whoever else wrote it wrote the same bytes.
func (f *flat) claim(i int) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		if f.sealed || f.present.has(i) {
			return false, nil
		}
		if _, taken := f.busy[i]; !taken {
			break
		}
		f.changed.Wait() // one write or punch of one block
	}
	if _, err := f.enter(); err != nil {
		return false, err
	}
	f.busy[i] = struct{}{}
	return true, nil
}

// settle ends the busy state of block i. The caller holds mu.
func (f *flat) settle(i int) {
	delete(f.busy, i)
	f.leave()
	f.changed.Broadcast()
}

// fill reserves room and writes the bytes of a busy block. On error there is
// neither room taken nor data left.
func (f *Flat) fill(i int, data []byte, off int64) error {
	n := int64(len(data))
	if err := f.store.reserve(onDisk(n)); err != nil {
		return err
	}
	if err := pwrite(int(f.file.Fd()), data, off); err != nil {
		_ = f.punchHole(i) // what a full disk cut short takes room that is not counted
		f.store.flats.used.Add(-onDisk(n))
		return err
	}
	return nil
}

// punchHole gives the room of block i back. The block is busy and the file
// open: both are the caller's.
func (f *flat) punchHole(i int) error {
	off, n := f.span(i)
	_, err := retry(func() (int, error) {
		return 0, unix.Fallocate(int(f.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
	})
	return err
}
