package store

import (
	"errors"
	"path/filepath"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/block"
)

// Retain drops what only blobs want for which live is false: their blocks,
// sections and flat files. A block that another blob wants stays, and a flat file
// that is in use until its last user closes it. live is called without a lock.
// What comes afterwards is kept, unless Options.Live says otherwise.
func (s *Store) Retain(live func(digest.Digest) bool) error {
	s.flats.retain(live)
	s.mu.Lock()
	known := make([]*blob, 0, len(s.blobs))
	for _, b := range s.blobs {
		known = append(known, b)
	}
	s.mu.Unlock()
	var errs []error
	for _, b := range known {
		if !live(b.digest) {
			// The list goes before the blocks: after a crash in between they have
			// no owner and the next Retain drops them.
			errs = append(errs, s.forget(b))
		}
	}

	var victims []*entry
	s.mu.Lock()
	for _, e := range s.index.entries {
		e.owners = slices.DeleteFunc(e.owners, func(b *blob) bool { return b.gone.Load() })
		if len(e.owners) == 0 {
			s.index.remove(e)
			victims = append(victims, e)
		}
	}
	s.mu.Unlock()
	s.unlink(victims)
	return errors.Join(errs...)
}

// lives reports whether what blob wants is to be kept.
func (s *Store) lives(blob digest.Digest) bool { return s.opts.Live == nil || s.opts.Live(blob) }

// forget ends b. What it owns is left to the caller.
func (s *Store) forget(b *blob) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gone.Store(true)
	err := removeFile(filepath.Join(s.root, "blobs", b.name))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blobs[b.name] == b {
		delete(s.blobs, b.name)
	}
	return err
}

// disown takes b, which is dead, out of the owners of the block sum, and drops
// the block if it has no other.
func (s *Store) disown(b *blob, sum block.Sum) error {
	err := s.forget(b)
	var victims []*entry
	s.mu.Lock()
	if e := s.index.entries[sum]; e != nil {
		e.owners = slices.DeleteFunc(e.owners, func(o *blob) bool { return o == b })
		if len(e.owners) == 0 {
			s.index.remove(e)
			victims = append(victims, e)
		}
	}
	s.mu.Unlock()
	s.unlink(victims)
	return err
}
