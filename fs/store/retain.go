package store

import (
	"errors"
	"path/filepath"
	"slices"

	"github.com/opencontainers/go-digest"
)

// Retain drops what only blobs want for which live is false: their blocks,
// sections and flat files. A block that another blob wants stays, and so does
// all of a blob whose flat file is in use. live is called without a lock.
func (s *Store) Retain(live func(digest.Digest) bool) error {
	used := s.flats.retain(live)
	s.mu.Lock()
	known := make([]*blob, 0, len(s.blobs))
	for _, b := range s.blobs {
		known = append(known, b)
	}
	s.mu.Unlock()
	var errs []error
	for _, b := range known {
		if used[b.digest] || live(b.digest) {
			continue
		}
		b.mu.Lock()
		b.gone.Store(true)
		// The list goes before the blocks: after a crash in between they have
		// no owner and the next Retain drops them.
		if err := removeFile(filepath.Join(s.root, "blobs", b.name)); err != nil {
			errs = append(errs, err)
		}
		s.mu.Lock()
		if s.blobs[b.name] == b {
			delete(s.blobs, b.name)
		}
		s.mu.Unlock()
		b.mu.Unlock()
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
