package store

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/fs/block"
)

// found is an entry with the time of its last use, in nanoseconds.
type found struct {
	e    *entry
	used int64
}

// scan fills the index from what is on disk. It reads names, sizes and times;
// damage shows at the first read. The order of use is that of atime or mtime,
// whichever is later, since many file systems keep no exact atime.
func (s *Store) scan() error {
	sections, err := s.scanDir(filepath.Join(s.root, "sections"), true)
	if err != nil {
		return err
	}
	all, err := s.scanDir(filepath.Join(s.root, "blocks"), false)
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b found) int { return cmp.Compare(a.used, b.used) })

	s.mu.Lock()
	for _, f := range slices.Concat(sections, all) {
		if s.index.entries[f.e.sum] == nil {
			s.index.insert(f.e, false)
		}
	}
	victims := s.victims(s.opts.MaxBytes)
	s.mu.Unlock()
	s.unlink(victims)

	lists, err := os.ReadDir(filepath.Join(s.root, "blobs"))
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	for _, l := range lists {
		err := s.loadBlob(l.Name(), func(b *blob, sum block.Sum) {
			if e := s.index.entries[sum]; e != nil {
				e.own(b)
			}
		})
		if err != nil {
			return fmt.Errorf("store: %w", err)
		}
	}
	return s.flats.scan(s)
}

// scanDir returns the blocks of one directory and removes what is none.
func (s *Store) scanDir(dir string, section bool) ([]found, error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	out := make([]found, 0, len(names))
	for _, d := range names {
		path := filepath.Join(dir, d.Name())
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return nil, &fs.PathError{Op: "store: lstat", Path: path, Err: err}
		}
		var sum block.Sum
		if len(d.Name()) == hex.EncodedLen(len(sum)) {
			_, _ = hex.Decode(sum[:], []byte(d.Name()))
		}
		if path != s.path(sum, section) || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size == 0 {
			if err := os.RemoveAll(path); err != nil {
				return nil, fmt.Errorf("store: %w", err)
			}
			continue
		}
		out = append(out, found{
			&entry{sum: sum, size: onDisk(st.Size), section: section},
			max(st.Atim.Nano(), st.Mtim.Nano()),
		})
	}
	return out, nil
}
