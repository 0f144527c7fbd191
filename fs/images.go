package fs

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"sync"
)

// images keeps the EROFS images that are mounted, each in one file named by
// its content, for as long as a mount uses it.
type images struct {
	dir string

	mu   sync.Mutex // guards refs and the files
	refs map[string]int
}

// use writes img unless it is there, and returns its path and what undoes the use.
func (s *images) use(img []byte) (path string, drop func(), err error) {
	sum := sha256.Sum256(img)
	path = filepath.Join(s.dir, hex.EncodeToString(sum[:]))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refs[path] == 0 {
		if err := writeFile(path, img); err != nil {
			return "", nil, err
		}
	}
	s.refs[path]++
	return path, sync.OnceFunc(func() { s.drop(path) }), nil
}

// drop removes a file that no mount uses. The kernel keeps an unlinked file
// that a detached mount still reads.
func (s *images) drop(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refs[path]--; s.refs[path] == 0 {
		delete(s.refs, path)
		os.Remove(path)
	}
}

// writeFile replaces path with p in one step. It is not synced: images of an
// earlier daemon are never used again.
func writeFile(path string, p []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(p)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
