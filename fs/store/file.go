package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
)

// Open returns the block that ref names as a file of its own, from which it can
// be sent without passing through this process. The bytes are verified. The
// caller closes the file; eviction meanwhile does not disturb it.
func (s *Store) Open(ctx context.Context, ref block.Ref) (*os.File, error) {
	e, verified, err := s.lookup(ref)
	if err != nil {
		return nil, err
	}
	if !verified { // once after a restart
		if _, err := s.ReadBlock(ctx, ref, nil); err != nil {
			return nil, err
		}
	}
	f, err := os.Open(s.path(ref.Sum, e.section))
	if errors.Is(err, fs.ErrNotExist) { // evicted since the look-up
		return nil, missing(ref)
	}
	if err != nil {
		return nil, fmt.Errorf("store: %v: %w: %w", ref, err, errdefs.ErrUnavailable)
	}
	st, err := f.Stat()
	if err == nil && st.Size() != int64(ref.Size) {
		err = fmt.Errorf("file of %d bytes, want %d: %w", st.Size(), ref.Size, errSize)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("store: %v: %w: %w", ref, err, errdefs.ErrNotFound)
	}
	return f, nil
}
