package fs

import (
	"context"
	"fmt"
	"os"

	"github.com/containerd/errdefs"
)

// File is the uncompressed tar stream of one layer, the device of an EROFS
// mount. A File is compared by identity: the same File in several mounts is one
// device with one page cache, so an implementation is a pointer.
type File interface {
	// Size is the length in bytes; it never changes.
	Size() int64
	// View gives exactly n bytes at off, within Size; it never gives fewer.
	// It returns soon after ctx ends.
	View(ctx context.Context, off int64, n int) (Span, error)
	// Local gives the path of a complete local copy that nobody will modify or
	// truncate while it exists under any name. ok is false while there is none.
	Local() (path string, ok bool)
}

// Span is a range of a layer, in memory or in a local file where it stays as
// it is until Done.
type Span struct {
	Data   []byte   // the bytes; nil when they are in File
	File   *os.File // holds the bytes at Offset
	Offset int64
	Len    int
	Done   func() // gives the range back, exactly once; nil when there is nothing to give back
}

func (s Span) done() {
	if s.Done != nil {
		s.Done()
	}
}

// check refuses a span that is not n bytes long.
func (s Span) check(n int) error {
	have := s.Len
	if s.File == nil {
		have = len(s.Data)
	}
	if have != n {
		return fmt.Errorf("view of %d bytes, want %d: %w", have, n, errdefs.ErrDataLoss)
	}
	return nil
}
