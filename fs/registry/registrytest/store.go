package registrytest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/opencontainers/go-digest"
)

// blob is the content of one digest, open for reading.
type blob interface {
	io.ReaderAt
	io.Closer
}

// store keeps blobs by digest.
type store interface {
	put(src io.Reader) (digest.Digest, int64, error)
	open(d digest.Digest) (blob, int64, error) // fs.ErrNotExist when absent
}

func newStore(dir string) (store, error) {
	if dir == "" {
		return &memory{m: map[digest.Digest][]byte{}}, nil
	}
	d := directory(filepath.Join(dir, "blobs", "sha256"))
	return d, os.MkdirAll(string(d), 0o755)
}

type memory struct {
	mu sync.RWMutex // guards m
	m  map[digest.Digest][]byte
}

type memoryBlob struct{ *bytes.Reader }

// Close implements io.Closer.
func (memoryBlob) Close() error { return nil }

func (s *memory) put(src io.Reader) (digest.Digest, int64, error) {
	p, err := io.ReadAll(src)
	if err != nil {
		return "", 0, err
	}
	d := digest.FromBytes(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m[d] = p
	return d, int64(len(p)), nil
}

func (s *memory) open(d digest.Digest) (blob, int64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p, ok := s.m[d]
	if !ok {
		return nil, 0, os.ErrNotExist
	}
	return memoryBlob{bytes.NewReader(p)}, int64(len(p)), nil
}

// directory is the blobs/sha256 of an OCI layout.
type directory string

func (s directory) put(src io.Reader) (_ digest.Digest, _ int64, err error) {
	f, err := os.CreateTemp(string(s), ".put-*")
	if err != nil {
		return "", 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	sum := digest.SHA256.Digester()
	n, err := io.Copy(io.MultiWriter(f, sum.Hash()), src)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", 0, err
	}
	d := sum.Digest()
	return d, n, os.Rename(f.Name(), filepath.Join(string(s), d.Encoded()))
}

func (s directory) open(d digest.Digest) (blob, int64, error) {
	f, err := os.Open(filepath.Join(string(s), d.Encoded()))
	if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("stat of %s: %w", d, err), f.Close())
	}
	return f, st.Size(), nil
}
