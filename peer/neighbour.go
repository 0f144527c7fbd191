package peer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
)

// A VM that cannot be reached is left alone for a time that doubles.
const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 5 * time.Second
)

const (
	// corruptFor is how long a VM that gave bad bytes is not asked (PN-03).
	corruptFor = 30 * time.Second
	// A slow VM is not asked for a time that doubles.
	firstSlow = 2 * time.Second
	lastSlow  = 30 * time.Second
	// slowAfter is how often, and slowSpan for how long, a VM must lose without
	// winning once before it is slow: a lost segment is no reason. One that has
	// been slow is slow again when it loses once.
	slowAfter = 3
	slowSpan  = 500 * time.Millisecond
)

// neighbour is another VM as we know it. There is one for each VM that we ever
// had reason to ask.
type neighbour struct {
	r  *Relay
	vm string

	mu        sync.Mutex // guards the rest; no other lock is taken under it
	address   string
	conn      *conn    // may have ended
	dialing   *dialing // under way
	failures  int      // in a row
	notBefore time.Time
	corrupt   time.Time // until when
	slow      time.Time // until when
	slowed    int       // how often it was slow, without much success between
	losses    int       // in a row
	lossSince time.Time
	wins      int // in a row
}

// dialing is an attempt to connect, for all who want it.
type dialing struct {
	done  chan struct{}
	began time.Time
	conn  *conn
	err   error
}

// neighbour returns the one for p. r.mu is held.
func (r *Relay) neighbour(p Peer) *neighbour {
	n := r.neighbours[p.VM]
	if n == nil {
		n = &neighbour{r: r, vm: p.VM}
		r.neighbours[p.VM] = n
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.address != p.Address {
		n.address, n.failures, n.notBefore = p.Address, 0, time.Time{}
	}
	return n
}

// live returns the connection, if there is one.
func (n *neighbour) live() *conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conn != nil && n.conn.ctx.Err() == nil {
		return n.conn
	}
	return nil
}

// unused reports whether nothing need be remembered of n.
func (n *neighbour) unused() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return (n.conn == nil || n.conn.ctx.Err() != nil) && n.dialing == nil && time.Now().After(n.corrupt)
}

// usable reports whether there is reason to ask n now: it can be reached as far
// as we know, has given no bad bytes, and is not slow.
func (n *neighbour) usable(now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !now.Before(n.corrupt) && !now.Before(n.notBefore) && !now.Before(n.slow)
}

// quiet reports whether n does not say that it lives: others are asked first.
func (n *neighbour) quiet() bool {
	c := n.live()
	return c != nil && c.quiet()
}

// lost notes that n was slower than another one, and reports whether it is slow
// by now.
func (n *neighbour) lost() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	n.wins = 0
	if n.losses++; n.losses == 1 {
		n.lossSince = now
	}
	if n.slowed == 0 && (n.losses < slowAfter || now.Sub(n.lossSince) < slowSpan) {
		return false
	}
	n.losses = 0
	n.slow = now.Add(min(firstSlow<<min(n.slowed, 8), lastSlow))
	n.slowed++
	return true
}

// enoughWins makes up for having been slow.
const enoughWins = 16

func (n *neighbour) won() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.losses = 0
	if n.wins++; n.wins >= enoughWins {
		n.slowed = 0
	}
}

// abandon ends the connection if n, which is not above us any more, owes us blocks
// and has been silent for some keep-alives: most likely it is gone, and that is
// why. One that works goes on with what it has begun.
func (n *neighbour) abandon() {
	if c := n.live(); c != nil && c.owes() >= leftAfter*n.r.opts.KeepAlive {
		c.close(fmt.Errorf("%s has left: %w", n.vm, errSilent))
	}
}

// leftAfter is in keep-alives.
const leftAfter = 3

// connect returns the connection, made now if there is none.
func (n *neighbour) connect(ctx context.Context) (*conn, error) {
	if n.live() == nil {
		n.r.adoptAny(n.vm)
	}
	n.mu.Lock()
	if n.conn != nil && n.conn.ctx.Err() == nil {
		defer n.mu.Unlock()
		return n.conn, nil
	}
	d := n.dialing
	if d == nil {
		if wait := time.Until(n.notBefore); wait > 0 {
			defer n.mu.Unlock()
			return nil, fmt.Errorf("%s did not answer, it is left alone for %v: %w", n.vm, wait.Round(time.Millisecond), errdefs.ErrUnavailable)
		}
		d = &dialing{done: make(chan struct{}), began: time.Now()}
		n.dialing = d
		address := n.address
		n.mu.Unlock()
		if !n.r.start(func() { n.dial(d, address) }) { //nolint:contextcheck // a connection outlives who asked for it
			n.dialed(d, nil, errClosed)
		}
	} else {
		n.mu.Unlock()
	}
	select {
	case <-d.done:
		return d.conn, d.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// dial makes a connection and serves it until it ends.
func (n *neighbour) dial(d *dialing, address string) {
	ctx, cancel := context.WithTimeout(n.r.ctx, n.r.opts.Connect)
	defer cancel()
	c, err := n.r.opts.Dial(ctx, address)
	if err != nil {
		n.dialed(d, nil, err)
		return
	}
	defer c.Close()
	k, err := n.r.shake(ctx, c, n.vm)
	if n.dialed(d, k, err) {
		n.r.hold(k)
	}
}

// dialed tells all who wait, and reports whether c is used: it is not when n has
// come to us meanwhile and its connection goes before.
func (n *neighbour) dialed(d *dialing, c *conn, err error) (used bool) {
	if err != nil {
		err = fmt.Errorf("connect to %s: %w: %w", n.vm, err, errdefs.ErrUnavailable)
	}
	n.mu.Lock()
	used = err == nil
	if n.conn != nil && n.conn.ctx.Err() == nil { // adopted
		if used {
			c.close(errSpare)
		}
		c, err, used = n.conn, nil, false
	}
	d.conn, d.err = c, err
	n.dialing = nil
	if used {
		n.conn, n.failures = c, 0
	}
	n.mu.Unlock()
	defer close(d.done) // whoever tries again at once finds that n is left alone
	if err != nil && !errors.Is(err, errClosed) && n.r.ctx.Err() == nil {
		if n.failed() == 1 {
			log.G(n.r.ctx).WithField("vm", n.vm).WithError(err).Warn("relay: a VM that we read from cannot be reached")
		}
		n.r.metrics.dials.Add(1)
		n.r.report(n.vm, Unreachable, d.began)
	}
	return used
}

// failed makes us leave n alone for a while, and returns how often it has failed in
// a row.
func (n *neighbour) failed() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := min(firstBackoff<<min(n.failures, 10), lastBackoff)
	n.failures++
	n.notBefore = time.Now().Add(d/2 + rand.N(d/2))
	return n.failures
}

// lost is told of a connection that has ended. That it was closed or reset says
// nothing yet: whoever needs it connects again at once.
func (r *Relay) lost(c *conn, err error) {
	r.mu.Lock()
	n := r.neighbours[c.vm]
	r.mu.Unlock()
	if n == nil || n.lostConn(c) || !errors.Is(err, errSilent) {
		return
	}
	_ = n.failed() // it is logged here
	r.metrics.silent.Add(1)
	log.G(r.ctx).WithField("vm", c.vm).Warn("relay: a VM that we read from gives no sign of life")
	c.mu.Lock()
	since := c.quietSince()
	c.mu.Unlock()
	r.report(c.vm, Silent, since)
}

// lostConn reports whether c is not the connection to n.
func (n *neighbour) lostConn(c *conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.conn != c
}
