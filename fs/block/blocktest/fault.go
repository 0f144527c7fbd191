package blocktest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/faasnet/faasnet/fs/block"
)

// Delay returns a Source that answers d later than src, or as soon as the
// context ends. With testing/synctest the wait is virtual.
func Delay(src block.Source, d time.Duration) block.Source {
	return block.SourceFunc(func(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return src.ReadBlock(ctx, ref, dst)
		case <-ctx.Done():
			return dst, ctx.Err()
		}
	})
}

// Hang returns a Source that answers nothing until the context ends.
func Hang() block.Source {
	return block.SourceFunc(func(ctx context.Context, _ block.Ref, dst []byte) ([]byte, error) {
		<-ctx.Done()
		return dst, ctx.Err()
	})
}

// Fail returns a Source whose first n reads fail with err; n < 0 means all.
func Fail(src block.Source, n int, err error) block.Source {
	var calls atomic.Int64
	return block.SourceFunc(func(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
		if i := calls.Add(1); n < 0 || i <= int64(n) {
			return dst, err
		}
		return src.ReadBlock(ctx, ref, dst)
	})
}

// Flip returns a Source that inverts one bit in the middle of the block in the
// first n reads that succeed; n < 0 means all.
func Flip(src block.Source, n int) block.Source {
	return damage(src, n, func(p []byte) []byte {
		if len(p) > 0 {
			p[len(p)/2] ^= 1
		}
		return p
	})
}

// Truncate returns a Source that gives only the first keep bytes of a block in
// the first n reads that succeed, without an error; n < 0 means all.
func Truncate(src block.Source, n, keep int) block.Source {
	return damage(src, n, func(p []byte) []byte { return p[:min(keep, len(p))] })
}

// damage passes what the first n good reads add to dst through f.
func damage(src block.Source, n int, f func([]byte) []byte) block.Source {
	var calls atomic.Int64
	return block.SourceFunc(func(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
		got, err := src.ReadBlock(ctx, ref, dst)
		if err != nil {
			return got, err
		}
		if i := calls.Add(1); n < 0 || i <= int64(n) {
			got = got[:len(dst)+len(f(got[len(dst):]))]
		}
		return got, nil
	})
}
