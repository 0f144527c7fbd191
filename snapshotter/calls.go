package snapshotter

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/errdefs"
)

// calls counts the goroutines that are inside the Mounter.
type calls struct {
	mu     sync.Mutex
	n      int
	closed bool
	idle   chan struct{} // closed when n is 0 after close
}

// start runs f in a goroutine, and returns false when closed.
func (c *calls) start(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.n++
	go func() {
		defer c.end()
		f()
	}()
	return true
}

func (c *calls) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n--
	if c.n == 0 && c.closed {
		close(c.idle)
	}
}

// close lets no more calls start and waits for those that run, at most wait.
func (c *calls) close(wait time.Duration) error {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	if first {
		c.idle = make(chan struct{})
		if c.n == 0 {
			close(c.idle)
		}
	}
	c.mu.Unlock()
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-c.idle:
		return nil
	case <-t.C:
		c.mu.Lock()
		defer c.mu.Unlock()
		return fmt.Errorf("%d calls have not returned after %v: %w", c.n, wait, errdefs.ErrUnavailable)
	}
}

// within runs f and returns its result, or ctx's error as soon as ctx ends: f may be stuck in the kernel, and then runs on alone.
func within[T any](ctx context.Context, c *calls, f func(context.Context) (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	if !c.start(func() {
		v, err := f(ctx)
		done <- result{v, err}
	}) {
		var none T
		return none, fmt.Errorf("snapshotter is closed: %w", errdefs.ErrUnavailable)
	}
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
	}
	select {
	case r := <-done:
		return r.v, r.err
	default:
		var none T
		return none, ctx.Err()
	}
}
