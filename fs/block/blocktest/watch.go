package blocktest

import (
	"context"
	"slices"
	"sync"

	"github.com/faasnet/faasnet/fs/block"
)

// Counter passes reads on and remembers them.
type Counter struct {
	src  block.Source
	mu   sync.Mutex
	refs []block.Ref
	live int // reads that have not returned
	most int
}

// Count returns a Counter over src.
func Count(src block.Source) *Counter { return &Counter{src: src} }

// ReadBlock implements block.Source.
func (c *Counter) ReadBlock(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
	c.mu.Lock()
	c.refs = append(c.refs, ref)
	c.live++
	c.most = max(c.most, c.live)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.live--
	}()
	return c.src.ReadBlock(ctx, ref, dst)
}

// Refs returns every ref asked for, in the order of the calls.
func (c *Counter) Refs() []block.Ref {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.refs)
}

// Calls returns the number of reads, finished or not.
func (c *Counter) Calls() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.refs)
}

// Live returns the reads that have not returned, and the most there were at a
// time.
func (c *Counter) Live() (now, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live, c.most
}

// Gate holds reads back until they are let through: the way to keep a fetch in
// flight without sleeping.
type Gate struct {
	src     block.Source
	entered chan block.Ref
	pass    chan struct{}
}

// NewGate returns a closed Gate in front of src.
func NewGate(src block.Source) *Gate {
	return &Gate{src: src, entered: make(chan block.Ref), pass: make(chan struct{})}
}

// ReadBlock implements block.Source: it reports its arrival to Entered, if
// anyone listens, and waits for Pass or Open, or the end of the context.
func (g *Gate) ReadBlock(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
	entered := g.entered
	for {
		select {
		case entered <- ref:
			entered = nil // a nil channel is never ready
		case <-g.pass:
			return g.src.ReadBlock(ctx, ref, dst)
		case <-ctx.Done():
			return dst, ctx.Err()
		}
	}
}

// Entered delivers each read that waits at the gate, once.
func (g *Gate) Entered() <-chan block.Ref { return g.entered }

// Pass lets one read through, and waits until there is one.
func (g *Gate) Pass() { g.pass <- struct{}{} }

// Open lets all reads through from now on. Call it once.
func (g *Gate) Open() { close(g.pass) }
