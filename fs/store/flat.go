package store

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/block"
)

// FlatID says what a flat file holds. Two layers share one only if all of it is
// equal. Table is the sum of the block table, and more than a digest on
// purpose: nobody recomputes the digest of a whole blob, so an image that lies
// about the blocks of another image's layer must not share the other's file.
type FlatID struct {
	Blob      digest.Digest
	Table     block.Sum
	BlockSize int
	Length    int64
}

// Flat is one user's handle of the decoded file of a layer: the tar stream, of
// which blocks are present or not. All handles of one FlatID share the file. A
// handle is safe for concurrent use.
//
// The file is never the truth about which blocks are there: a hole reads as
// zeros. Whoever reads it holds Pins.
type Flat struct {
	*flat
	store  *Store
	closed atomic.Bool
}

// Flat opens the decoded file of a layer, creates it where there is none.
func (s *Store) Flat(id FlatID) (*Flat, error) {
	if err := id.Blob.Validate(); err != nil {
		return nil, fmt.Errorf("store: flat file: blob %q: %w: %w", id.Blob, err, errdefs.ErrInvalidArgument)
	}
	if err := block.ValidSize(id.BlockSize); err != nil || id.Length < 0 || id.Length/int64(id.BlockSize) >= block.MaxBlocks {
		return nil, fmt.Errorf("store: flat file of %d bytes in blocks of %d: %w", id.Length, id.BlockSize, errdefs.ErrInvalidArgument)
	}
	f, err := s.flats.open(s, id)
	if err != nil {
		return nil, fmt.Errorf("store: flat file of %v: %w", id.Blob, err)
	}
	return &Flat{flat: f, store: s}, nil
}

// Close gives the handle up. The file stays for the next user until it is the
// oldest one and its room is needed, or goes at once if its blob is dead. Close may be called again.
func (f *Flat) Close() error {
	if !f.closed.Swap(true) {
		f.store.flats.release(f.flat, f.store.lives)
	}
	return nil
}

// Length returns the bytes of the tar stream.
func (f *Flat) Length() int64 { return f.id.Length }

// Has reports whether block i is present. Only a Pin keeps it so.
func (f *Flat) Has(i int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sealed || f.present.has(i)
}

// Present returns how many blocks are present, and of how many.
func (f *Flat) Present() (n, of int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count, f.blocks
}

// Complete reports whether all blocks are present.
func (f *Flat) Complete() bool {
	n, of := f.Present()
	return n == of
}

// Local returns the file's path if it is sealed. Until Close of the handle the
// path stays; the content stays for whoever has it open or mounted.
func (f *Flat) Local() (path string, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.sealed {
		return "", false
	}
	return f.path, true
}

// flat is the decoded file of a layer, shared by its handles.
//
// A block is absent, busy or present. Busy is the state between: a writer fills
// it or the evictor punches it, so nobody else may touch its bytes. It is
// entered and left under mu, the disk is used without mu. Only a present block
// can be pinned, only one without pins can be punched.
type flat struct {
	id     FlatID
	path   string
	blocks int

	// Guarded by flats.mu.
	refs     int
	released uint64 // order of the last release
	unwanted bool   // by Retain: remove on release

	mu      sync.Mutex
	changed sync.Cond // a block left busy
	present bitmap
	recent  bitmap // pinned since the evictor last came by
	busy    map[int]struct{}
	pins    []uint32    // by block; unused once sealed
	count   int         // of present
	hand    int         // where the evictor goes on
	inode   os.FileInfo // of path, whenever it is opened again
	file    *os.File    // nil while closed for want of descriptors
	users   int         // of file: pins, writers, the sealer
	sealing bool
	sealed  bool
	closed  bool // removed, or the store is closed: the last user closes file
	opened  *atomic.Int64
}

func newFlat(id FlatID, path string) *flat {
	n := int((id.Length + int64(id.BlockSize) - 1) / int64(id.BlockSize))
	f := &flat{id: id, path: path, blocks: n, busy: map[int]struct{}{}}
	f.changed.L = &f.mu
	return f
}

// span returns where block i lies.
func (f *flat) span(i int) (off, n int64) {
	off = int64(i) * int64(f.id.BlockSize)
	return off, min(int64(f.id.BlockSize), f.id.Length-off)
}

// bytes returns what the present blocks take on disk. The caller holds mu.
func (f *flat) bytes() int64 {
	if f.count == 0 {
		return 0
	}
	n := int64(f.count) * onDisk(int64(f.id.BlockSize))
	if f.sealed || f.present.has(f.blocks-1) {
		_, last := f.span(f.blocks - 1)
		n -= onDisk(int64(f.id.BlockSize)) - onDisk(last)
	}
	return n
}

type bitmap []uint64

func newBitmap(n int) bitmap    { return make(bitmap, (n+63)/64) }
func (b bitmap) has(i int) bool { return b != nil && b[i/64]>>(i%64)&1 == 1 }
func (b bitmap) set(i int)      { b[i/64] |= 1 << (i % 64) }
func (b bitmap) clear(i int)    { b[i/64] &^= 1 << (i % 64) }
