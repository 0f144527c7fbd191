package blocktest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/faasnet/faasnet/fs/block"
)

// Stream returns a Streamer that gives what src gives piece by piece, each after
// pace. With testing/synctest the wait is virtual.
func Stream(src block.Source, piece int, pace time.Duration) block.Streamer {
	return streamer{src, piece, pace}
}

type streamer struct {
	block.Source
	piece int
	pace  time.Duration
}

func (s streamer) StreamBlock(ctx context.Context, ref block.Ref, dst []byte, arrived func(int)) ([]byte, error) {
	p, err := s.ReadBlock(ctx, ref, nil)
	if err != nil {
		return dst, err
	}
	out := slices.Grow(dst, len(p))
	for n := 0; n < len(p); {
		t := time.NewTimer(s.pace)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return dst, ctx.Err()
		}
		m := min(n+s.piece, len(p))
		copy(out[len(dst)+n:len(dst)+m], p[n:m])
		n = m
		arrived(n)
	}
	return out[:len(dst)+len(p)], nil
}

// Break returns a Streamer that fails with err after n bytes of a block, in the
// first fails blocks; below zero means all.
func Break(src block.Streamer, fails, n int, err error) block.Streamer {
	return &breaker{Streamer: src, fails: fails, n: n, err: err}
}

type breaker struct {
	block.Streamer
	fails, n int
	err      error
}

// StreamBlock is not for concurrent use, unlike that of a good Streamer.
func (b *breaker) StreamBlock(ctx context.Context, ref block.Ref, dst []byte, arrived func(int)) ([]byte, error) {
	if b.fails == 0 {
		return b.Streamer.StreamBlock(ctx, ref, dst, arrived)
	}
	b.fails--
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p, err := b.Streamer.StreamBlock(ctx, ref, dst, func(n int) {
		if n <= b.n {
			arrived(n)
		} else {
			cancel(b.err)
		}
	})
	if errors.Is(context.Cause(ctx), b.err) {
		return dst, b.err
	}
	return p, err
}
