package fs

import (
	"context"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// readContext is the context of one READ. It ends at the deadline, when the
// kernel interrupts the request, or with its parent. Most READs are answered
// from the local file and never wait, so that the timer and the goroutine behind
// Done are started only for one that asks for it.
type readContext struct {
	parent   context.Context //nolint:containedctx // it is one itself
	cancel   <-chan struct{} // closed when the kernel gives the request up
	deadline time.Time

	mu   sync.Mutex      // guards the rest
	ctx  context.Context //nolint:containedctx // for those who ask for Done
	free func()
}

func (c *readContext) Deadline() (time.Time, bool) { return c.deadline, true }

func (c *readContext) Value(key any) any { return c.parent.Value(key) }

func (c *readContext) Done() <-chan struct{} { return c.waiting().Done() }

func (c *readContext) Err() error {
	c.mu.Lock()
	ctx := c.ctx
	c.mu.Unlock()
	if ctx != nil {
		return ctx.Err()
	}
	select {
	case <-c.cancel:
		return context.Canceled
	default:
	}
	if !time.Now().Before(c.deadline) {
		return context.DeadlineExceeded
	}
	return c.parent.Err()
}

func (c *readContext) waiting() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil {
		ctx, stop := context.WithDeadline(&fuse.Context{Cancel: c.cancel}, c.deadline)
		unlink := context.AfterFunc(c.parent, stop)
		c.ctx, c.free = ctx, func() { unlink(); stop() }
	}
	return c.ctx
}

// release frees what Done started. The context has ended then.
func (c *readContext) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.free != nil {
		c.free()
	}
}
