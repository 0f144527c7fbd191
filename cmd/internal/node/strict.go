package node

import (
	"context"
	"fmt"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/fetch"
)

// origin is where blocks come from at last: the registry. In a strict fleet it is
// read by the roots of trees only, and everybody else does without, rather than
// that a fleet which has lost its tree falls upon the registry.
func (f *fleet) origin(o fetch.Origin) fetch.Origin {
	if f == nil || !f.strict {
		return o
	}
	return func(blob digest.Digest) block.Source {
		src := o(blob)
		if src == nil {
			return nil
		}
		s := guarded{src, f.relay.Root}
		if streams, ok := src.(block.Streamer); ok {
			return guardedStreamer{s, streams}
		}
		return s
	}
}

// await waits for a place in a function's tree, whatever the coordinator is like:
// without one nothing can be read. err is why there is none so far.
func (f *fleet) await(ctx context.Context, name string, err error) error {
	late := time.NewTimer(f.wait)
	defer late.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, in := f.client.Place(name); in {
			return nil
		}
		select {
		case <-tick.C:
		case <-late.C:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// guarded is a Source that is asked for what mayRead has nothing against.
type guarded struct {
	block.Source
	mayRead func(block.Ref) error
}

func (g guarded) check(ref block.Ref) error {
	if err := g.mayRead(ref); err != nil {
		return fmt.Errorf("tree.strict: not read from the registry: %w", err)
	}
	return nil
}

// ReadBlock is that of block.Source.
func (g guarded) ReadBlock(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
	if err := g.check(ref); err != nil {
		return dst, err
	}
	return g.Source.ReadBlock(ctx, ref, dst)
}

type guardedStreamer struct {
	guarded
	streamer block.Streamer
}

// StreamBlock is that of block.Streamer.
func (g guardedStreamer) StreamBlock(ctx context.Context, ref block.Ref, dst []byte, arrived func(int)) ([]byte, error) {
	if err := g.check(ref); err != nil {
		return dst, err
	}
	return g.streamer.StreamBlock(ctx, ref, dst, arrived)
}
