package store

import (
	"fmt"

	"github.com/containerd/errdefs"
)

// victim is a block that the evictor made busy: absent for all, its bytes
// still on disk.
type victim struct {
	flat *flat
	i    int
}

// evict takes up to want bytes of blocks that nobody pins out of f, by the
// CLOCK algorithm: a block that was pinned since the hand last passed gets
// another round. A file that is sealed, or about to be, is never touched: it
// may be the device of a mount that reads it without asking us.
func (f *flat) evict(want int64, out []victim) ([]victim, int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sealed || f.sealing || f.count == 0 {
		return out, 0
	}
	var freed int64
	for range 2 * f.blocks {
		if freed >= want || f.count == 0 {
			break
		}
		i := f.hand
		f.hand = (f.hand + 1) % f.blocks
		switch {
		case !f.present.has(i) || f.pins[i] > 0:
			continue
		case f.recent.has(i):
			f.recent.clear(i)
			continue
		}
		if _, err := f.enter(); err != nil {
			break
		}
		f.present.clear(i)
		f.count--
		f.busy[i] = struct{}{}
		out = append(out, victim{f, i})
		_, n := f.span(i)
		freed += onDisk(n)
	}
	return out, freed
}

// punch ends an eviction on disk. Where holes cannot be punched the block
// becomes present again: its bytes are all there.
func (s *Store) punch(victims []victim) {
	for _, v := range victims {
		err := v.flat.punchHole(v.i)
		v.flat.mu.Lock()
		switch {
		case err == nil:
			s.metrics.evictedFlat.Add(1)
		case !v.flat.closed:
			_, n := v.flat.span(v.i)
			v.flat.present.set(v.i)
			v.flat.count++
			s.flats.used.Add(onDisk(n))
		}
		v.flat.settle(v.i)
		v.flat.mu.Unlock()
	}
}

// reserve counts n bytes that are about to be written and makes room for them.
// The error matches errdefs.ErrResourceExhausted when all room is pinned or in
// sealed files in use.
func (s *Store) reserve(n int64) error {
	limit := s.opts.MaxFlatBytes
	over := s.flats.used.Add(n) - limit
	if over <= 0 {
		return nil
	}
	s.makeRoom(max(over, min(limit/32, 8<<20))) // some more, to scan less often
	if s.flats.used.Load() <= limit {
		return nil
	}
	s.flats.used.Add(-n)
	return fmt.Errorf("%d bytes of decoded blocks are all in use: %w", limit, errdefs.ErrResourceExhausted)
}

// makeRoom frees want bytes of decoded blocks if it can: first the files
// without users, then blocks of files in use. It reports what it freed.
func (s *Store) makeRoom(want int64) (freed int64) {
	var gone []string
	var victims []victim
	x := &s.flats
	x.mu.Lock()
	for freed < want {
		f := x.oldestReleased()
		if f == nil {
			break
		}
		before := x.used.Load()
		gone = x.remove(f, gone)
		freed += before - x.used.Load()
	}
	for range len(x.ring) {
		if freed >= want {
			break
		}
		x.hand = (x.hand + 1) % len(x.ring)
		var n int64
		victims, n = x.ring[x.hand].evict(want-freed, victims)
		x.used.Add(-n)
		freed += n
	}
	x.mu.Unlock()
	s.metrics.droppedFlats.Add(int64(len(gone)))
	discard(gone)
	s.punch(victims)
	return freed
}

// oldestReleased returns the file without users that was released first, nil
// if all are in use. The caller holds mu.
func (x *flats) oldestReleased() *flat {
	var oldest *flat
	for _, f := range x.ring {
		if f.refs == 0 && (oldest == nil || f.released < oldest.released) {
			oldest = f
		}
	}
	return oldest
}
