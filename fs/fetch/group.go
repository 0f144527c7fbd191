package fetch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
)

// grace is how long work goes on after the last one who wanted it has left: a
// reader that was interrupted usually reads again. A decode that waits for a
// flight has two in a row; together they stay well below a second.
const grace = 300 * time.Millisecond

// errClosed is what everybody gets after Fetcher.Close.
var errClosed = fmt.Errorf("fetch: closed: %w", errdefs.ErrUnavailable)

// group runs one piece of work a key at a time and shares the result.
type group[K comparable] struct {
	wg     *sync.WaitGroup
	mu     sync.Mutex // guards the fields below and those of each work that say so
	works  map[K]*work
	closed bool
}

// work is one run for all who want its result. It ends when run returns.
type work struct {
	ref     block.Ref
	urgency *urgency
	done    chan struct{} // closed once buf or err is set
	buf     *buffer       // held by the work until everybody has left
	err     error

	progress progress    // of a flight
	offered  atomic.Bool // a flight that began because somebody sent the block

	// Guarded by group.mu.
	waiters int // who want the result
	watches int // who would take it
	cancel  context.CancelFunc
	left    bool // of the map: nobody joins any more
	ended   bool
	idle    *time.Timer
}

func (g *group[K]) init(wg *sync.WaitGroup) {
	g.wg = wg
	g.works = map[K]*work{}
}

// join joins the work for key, or starts run as one. run calls publish once,
// with a buffer that it holds for the work; what it does afterwards nobody
// waits for, and who joins meanwhile has the result at once. run's context has
// the values of ctx, and ends when everybody has left. The caller owes leave.
func (g *group[K]) join(ctx context.Context, key K, ref block.Ref, p Priority, run func(context.Context, *work)) (w *work, started bool, err error) {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil, false, errClosed
	}
	w = g.works[key]
	if w != nil {
		w.waiters++
		if w.idle != nil {
			w.idle.Stop()
			w.idle = nil
		}
		g.mu.Unlock()
		w.urgency.raise(p)
		return w, false, nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w = &work{ref: ref, urgency: newUrgency(p), done: make(chan struct{}), waiters: 1, cancel: cancel}
	g.works[key] = w
	g.wg.Add(1)
	g.mu.Unlock()
	go func() {
		defer g.wg.Done()
		run(ctx, w)
		g.end(key, w)
	}()
	return w, true, nil
}

// publish gives all who wait the result. A failure leaves the map first, so
// that whoever sees it and tries again starts anew.
func (g *group[K]) publish(key K, w *work, b *buffer, err error) {
	if err != nil {
		g.mu.Lock()
		g.forget(key, w)
		if g.closed && errors.Is(err, context.Canceled) {
			err = errClosed
		}
		g.mu.Unlock()
	}
	w.buf, w.err = b, err
	close(w.done)
}

func (g *group[K]) end(key K, w *work) {
	g.mu.Lock()
	g.forget(key, w)
	w.cancel()
	w.ended = true
	if w.idle != nil {
		w.idle.Stop()
	}
	last := w.waiters+w.watches == 0
	g.mu.Unlock()
	if last && w.buf != nil {
		w.buf.release()
	}
}

// wait returns the result, held for the caller, who has joined and still owes
// leave.
func (w *work) wait(ctx context.Context) (*buffer, error) {
	select {
	case <-w.done:
	default:
		select {
		case <-w.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if w.err != nil {
		return nil, w.err
	}
	return w.buf.retain(), nil
}

// succeeded reports whether the result is there, and good.
func (w *work) succeeded() bool {
	select {
	case <-w.done:
		return w.err == nil
	default:
		return false
	}
}

// leave is the opposite of join.
func (g *group[K]) leave(key K, w *work) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w.waiters--
	switch {
	case w.waiters > 0:
	case w.ended:
		if w.watches == 0 && w.buf != nil {
			w.buf.release()
		}
	default:
		w.idle = time.AfterFunc(grace, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			if w.waiters == 0 {
				g.forget(key, w)
				w.cancel()
			}
		})
	}
}

// watch returns the work for key and holds its result, without wanting it: the
// work does not go on for that. nil says that there is none. The caller owes
// unwatch.
func (g *group[K]) watch(key K) *work {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.works[key]
	if w != nil {
		w.watches++
	}
	return w
}

// unwatch is the opposite of watch.
func (g *group[K]) unwatch(w *work) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w.watches--
	if w.ended && w.waiters+w.watches == 0 && w.buf != nil {
		w.buf.release()
	}
}

// wanted returns how many want the result of w.
func (g *group[K]) wanted(w *work) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return w.waiters
}

// forget takes w out of the map. The caller holds mu.
func (g *group[K]) forget(key K, w *work) {
	if !w.left {
		w.left = true
		delete(g.works, key)
	}
}

// close cancels all work and refuses more. It does not wait.
func (g *group[K]) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for _, w := range g.works {
		w.cancel()
	}
}
