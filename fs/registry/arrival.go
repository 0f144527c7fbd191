package registry

import (
	"bytes"
	"context"
	"fmt"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
)

// arrival is a block being read, and how much of it the caller has been told of.
// Those bytes have been hashed and passed on, so they do not change: when they
// are read again, from the same host or another, they are compared.
type arrival struct {
	p    []byte    // as long as the block
	tell func(int) // nil: the caller waits for the whole
	n    int       // bytes of p that it was told of
	by   *blob     // from whom those came
}

// grow tells that n bytes are there.
func (a *arrival) grow(n int, by *blob) {
	if a.tell != nil && n > a.n {
		a.n, a.by = n, by
		a.tell(n)
	}
}

// room is where the block is read to, and whether the caller may be told of it
// while it comes.
func (a *arrival) room() (p []byte, first bool) {
	if a.n == 0 {
		return a.p, true
	}
	return make([]byte, len(a.p)), false
}

// settle takes what room gave, filled. It fails for good when what was told
// before was something else: the caller has to begin anew.
func (a *arrival) settle(p []byte) error {
	if &p[0] == &a.p[0] {
		return nil
	}
	if !bytes.Equal(p[:a.n], a.p[:a.n]) {
		a.by.avoid()
		return final{fmt.Errorf("its first %d bytes are not always the same: %w", a.n, errdefs.ErrDataLoss)}
	}
	copy(a.p[a.n:], p[a.n:])
	return nil
}

// StreamBlock implements block.Streamer. What comes of a registry that ignores
// Range is not told of before it is whole.
func (r *repository) StreamBlock(ctx context.Context, ref block.Ref, dst []byte, arrived func(n int)) ([]byte, error) {
	return r.readBlock(ctx, ref, dst, arrived)
}

// StreamBlock implements block.Streamer.
func (a *anySource) StreamBlock(ctx context.Context, ref block.Ref, dst []byte, arrived func(n int)) ([]byte, error) {
	return a.readBlock(ctx, ref, dst, arrived)
}
