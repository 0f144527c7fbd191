package store

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
)

// flats is all flat files of a store.
type flats struct {
	used   atomic.Int64 // bytes of present blocks and of those being written
	opened atomic.Int64 // descriptors

	mu     sync.Mutex // guards the fields below, and refs, released and unwanted of each file
	files  map[FlatID]*flat
	ring   []*flat // the same, in the order in which the evictor goes round
	hand   int     // in ring
	sealed int64   // the part of used in sealed files
	seq    uint64
	closed bool
}

func (x *flats) init() { x.files = map[FlatID]*flat{} }

// add enters f. The caller holds mu.
func (x *flats) add(f *flat) {
	f.opened = &x.opened
	x.files[f.id] = f
	x.ring = append(x.ring, f)
}

// open returns the file of id with one more reference.
func (x *flats) open(s *Store, id FlatID) (*flat, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return nil, fmt.Errorf("store is closed: %w", errdefs.ErrUnavailable)
	}
	f := x.files[id]
	if f == nil {
		var err error
		if f, err = x.create(s, id); err != nil {
			return nil, diskFull(err)
		}
		x.add(f)
	}
	f.refs++
	f.unwanted = false
	return f, nil
}

// create makes a new file. Its name was never used before: a file of that name
// cannot be anybody's device. The caller holds mu.
func (x *flats) create(s *Store, id FlatID) (*flat, error) {
	x.seq++
	f := newFlat(id, filepath.Join(s.root, "flat", flatName(id)+"-"+strconv.FormatUint(x.seq, 10)))
	f.present, f.recent, f.pins = newBitmap(f.blocks), newBitmap(f.blocks), make([]uint32, f.blocks)
	file, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err = file.Truncate(id.Length); err == nil {
		f.inode, err = file.Stat()
	}
	if err != nil {
		file.Close()
		os.Remove(f.path)
		return nil, err
	}
	f.file = file
	x.opened.Add(1)
	return f, nil
}

// release gives one reference back. live tells whether a blob is.
func (x *flats) release(f *flat, live func(digest.Digest) bool) {
	var gone []string
	x.mu.Lock()
	f.refs--
	if f.refs == 0 {
		x.seq++
		f.released = x.seq
		if f.unwanted || !live(f.id.Blob) {
			gone = x.remove(f, gone)
		}
	}
	x.mu.Unlock()
	discard(gone)
}

// remove forgets a file without references. The caller holds mu, and discards
// the path without it: no other file ever gets that name.
func (x *flats) remove(f *flat, gone []string) []string {
	delete(x.files, f.id)
	x.ring = slices.DeleteFunc(x.ring, func(o *flat) bool { return o == f })
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.bytes()
	x.used.Add(-n)
	if f.sealed {
		x.sealed -= n
	}
	f.close()
	return append(gone, f.path)
}

// discard unlinks files that were removed, the seal first. A mount that has
// one as its device keeps the data. What cannot be unlinked now is found by
// the next Open.
func discard(paths []string) {
	for _, p := range paths {
		os.Remove(p + sealSuffix)
		os.Remove(p)
	}
}

// retain removes the files of blobs that are not live. Those in use go when they
// are released.
func (x *flats) retain(live func(digest.Digest) bool) {
	x.mu.Lock()
	ids := make([]FlatID, 0, len(x.files))
	for id := range x.files {
		ids = append(ids, id)
	}
	x.mu.Unlock()
	var gone []string
	for _, id := range ids {
		keep := live(id.Blob)
		x.mu.Lock()
		if f := x.files[id]; f != nil {
			switch {
			case f.refs > 0:
				f.unwanted = !keep
			case !keep:
				gone = x.remove(f, gone)
			}
		}
		x.mu.Unlock()
	}
	discard(gone)
}

func (x *flats) usage() (files int, bytes, sealed int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.files), x.used.Load(), x.sealed
}

// sealedInUse returns the bytes of sealed files that have users. The caller
// holds mu.
func (x *flats) sealedInUse() (bytes int64) {
	for _, f := range x.ring {
		f.mu.Lock()
		if f.refs > 0 && (f.sealed || f.sealing) {
			bytes += f.bytes()
		}
		f.mu.Unlock()
	}
	return bytes
}

// FlatRoom returns how many decoded bytes can be written without evicting blocks of files in use.
func (s *Store) FlatRoom() int64 {
	x := &s.flats
	x.mu.Lock()
	defer x.mu.Unlock()
	room := s.opts.MaxFlatBytes - x.used.Load()
	for _, f := range x.ring {
		f.mu.Lock()
		if f.refs == 0 {
			room += f.bytes()
		}
		f.mu.Unlock()
	}
	return max(0, room)
}

// close closes every descriptor that nobody uses, and leaves the others to
// their last user.
func (x *flats) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	for _, f := range x.ring {
		f.mu.Lock()
		f.close()
		if !f.sealed {
			discard([]string{f.path})
		}
		f.mu.Unlock()
	}
}

// trim closes descriptors that nobody uses once there are more than limit.
func (x *flats) trim(limit int) {
	if x.opened.Load() <= int64(limit) {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, f := range x.ring {
		if x.opened.Load() <= int64(limit)*3/4 {
			return
		}
		f.mu.Lock()
		if f.users == 0 {
			f.shut()
		}
		f.mu.Unlock()
	}
}
