package fs

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/faasnet/faasnet/fs/index"
)

// images keeps the EROFS images that are mounted, each in one file named by
// its content, for as long as a mount uses it.
type images struct {
	dir string

	mu      sync.Mutex // guards the rest and the files
	refs    map[string]int
	checked map[[sha256.Size]byte]struct{} // images that passed, with the sizes of their devices
}

// maxChecked bounds the verdicts that are remembered.
const maxChecked = 1024

// check is index.Check, once for the same image on devices of the same sizes: it
// takes longer than the mount.
func (s *images) check(img []byte, devices []int64) error {
	h := sha256.New()
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(img))))
	h.Write(img)
	for _, size := range devices {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(size)))
	}
	key := [sha256.Size]byte(h.Sum(nil))
	s.mu.Lock()
	_, ok := s.checked[key]
	s.mu.Unlock()
	if ok {
		return nil
	}
	if err := index.Check(img, devices); err != nil {
		return fmt.Errorf("image is not safe to mount: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.checked) >= maxChecked {
		clear(s.checked)
	}
	s.checked[key] = struct{}{}
	return nil
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
