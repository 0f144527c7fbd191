// Package store keeps blocks on local disk: compressed as they travel, and
// decoded in one sparse file a layer. Both copies are bounded and either can be
// thrown away at any moment, since everything can be fetched again.
//
// Layout under the root, which belongs to one process at a time:
//
//	LOCK                 flock of the process that has the store open, its pid
//	version              format of everything below; another one is thrown away
//	blocks/ab12...       compressed blocks named by their sum, evicted by LRU
//	sections/cd34...     metadata and image sections, dropped by Retain only
//	blobs/sha256-...     which sums a blob wants, for Retain
//	flat/ID-N            decoded sparse file of a layer
//	flat/ID-N.sealed     proof that flat/ID-N is whole and on stable storage
//	tmp/                 files being written
//
// Blocks are written without fsync. What a crash leaves behind is found by its
// sum: the first read of a block after Open verifies it. Only flat files, which
// have no sum, are synced, and only trusted with their seal.
package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/faasnet/faasnet/fs/block"
)

// Defaults of Options.
const (
	DefaultMaxBytes     = 8 << 30
	DefaultMaxFlatBytes = 16 << 30
	DefaultMaxOpenFlat  = 256 // of the 1024 descriptors that a process usually has
)

// Options say how large a store may grow.
type Options struct {
	// MaxBytes bounds the compressed blocks on disk, in bytes, sections not
	// counted. The default is DefaultMaxBytes.
	MaxBytes int64
	// MaxFlatBytes bounds the decoded blocks on disk, in bytes. The default is
	// DefaultMaxFlatBytes.
	MaxFlatBytes int64
	// MaxOpenFlat bounds the descriptors of flat files that nobody reads from
	// at the moment. The default is DefaultMaxOpenFlat.
	MaxOpenFlat int
	// Live reports whether a blob is wanted by anybody: what is put for one that is
	// not is not kept, whatever Retain was told before. A blob dies before Retain is
	// told so. It is called with locks held and must not call the Store. The
	// default is that all are.
	Live func(digest.Digest) bool
	// Registerer takes the store's metrics. The default is none.
	Registerer prometheus.Registerer
}

func (o *Options) setDefaults() error {
	if o.MaxBytes < 0 || o.MaxFlatBytes < 0 || o.MaxOpenFlat < 0 {
		return fmt.Errorf("store: negative limit: %w", errdefs.ErrInvalidArgument)
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.MaxFlatBytes == 0 {
		o.MaxFlatBytes = DefaultMaxFlatBytes
	}
	if o.MaxOpenFlat == 0 {
		o.MaxOpenFlat = DefaultMaxOpenFlat
	}
	return nil
}

// Store is the blocks of one machine. It is safe for concurrent use. It is a
// block.Source whose blocks are verified.
//
// Lock order: a stripe, then mu. flats.mu, then a flat file's mu. No lock of
// the first pair is taken under one of the second or the other way round.
type Store struct {
	root string
	opts Options
	lock *os.File

	// stripes serialise the change of one block's file with that of its entry:
	// whoever renames or unlinks blocks/S holds stripe(S).
	stripes [64]sync.Mutex
	mu      sync.Mutex // guards index and blobs
	index   index
	blobs   map[string]*blob // by file name

	flats   flats
	tmp     atomic.Uint64 // names in tmp/
	metrics metrics
	close   sync.Once
}

// Open opens the store at root and creates it where there is none. It reads
// names and sizes, never the data. It starts nothing; Close releases the
// store. The error matches errdefs.ErrFailedPrecondition while another process
// has the store open.
func Open(root string, o Options) (_ *Store, retErr error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	lock, err := lockRoot(root)
	if err != nil {
		return nil, err
	}
	s := &Store{root: root, opts: o, lock: lock, blobs: map[string]*blob{}}
	s.index.init()
	s.flats.init()
	defer func() {
		if retErr != nil {
			retErr = errors.Join(retErr, s.Close())
		}
	}()
	if err := prepare(root); err != nil {
		return nil, err
	}
	if err := s.scan(); err != nil {
		return nil, err
	}
	if err := s.metrics.register(o.Registerer, s); err != nil {
		return nil, err
	}
	return s, nil
}

// Close gives the store up. Blocks stay; flat files that are not sealed are
// worth nothing to the next process and go with it. Pins that are still held
// keep their descriptor. Close may be called again.
func (s *Store) Close() error {
	var err error
	s.close.Do(func() {
		s.flats.close()
		s.metrics.unregister(s.opts.Registerer)
		err = s.lock.Close()
	})
	return err
}

// Usage is what a store holds, in bytes on disk.
type Usage struct {
	Blocks       int
	BlockBytes   int64
	Sections     int
	SectionBytes int64
	Flats        int
	FlatBytes    int64
	SealedBytes  int64 // the part of FlatBytes that is in sealed files
}

// Usage returns what the store holds now.
func (s *Store) Usage() Usage {
	var u Usage
	s.mu.Lock()
	u.Blocks, u.BlockBytes = s.index.blocks, s.index.bytes
	u.Sections, u.SectionBytes = s.index.sections, s.index.sectionBytes
	s.mu.Unlock()
	u.Flats, u.FlatBytes, u.SealedBytes = s.flats.usage()
	return u
}

func (s *Store) stripe(sum block.Sum) *sync.Mutex { return &s.stripes[int(sum[0])%len(s.stripes)] }

func (s *Store) path(sum block.Sum, section bool) string {
	dir := "blocks"
	if section {
		dir = "sections"
	}
	return filepath.Join(s.root, dir, sum.String())
}
