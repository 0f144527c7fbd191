package sim

import (
	"bytes"
	"context"
	"os"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/peer"
)

// lies gives wrong bytes under a good verdict. What is stored passes through it
// too.
type lies struct{ peer.Blocks }

// Open is that of peer.Blocks.
func (l lies) Open(context.Context, block.Ref) (*os.File, error) { return nil, errdefs.ErrNotFound }

// Tap is that of peer.Blocks.
func (l lies) Tap(ctx context.Context, ref block.Ref) (block.Tap, error) {
	t, err := l.Blocks.Tap(ctx, ref)
	return liar{t}, err
}

// Watch is that of peer.Blocks.
func (l lies) Watch(ref block.Ref) (block.Tap, error) {
	t, err := l.Blocks.Watch(ref)
	return liar{t}, err
}

type liar struct{ block.Tap }

// Next is that of block.Tap.
func (l liar) Next(ctx context.Context) ([]byte, error) {
	p, err := l.Tap.Next(ctx)
	if len(p) > 0 {
		p = bytes.Clone(p)
		p[len(p)-1] ^= 1
	}
	return p, err
}
