package peer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"

	"github.com/faasnet/faasnet/fs/block"
)

// Following a new upstream is tried again after a time that doubles.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 2 * time.Second
)

// followWithin bounds one attempt.
const followWithin = 2 * time.Second

// following keeps us a follower of the upstream in one stripe of a function.
type following struct {
	function string
	stripe   int
	started  bool          // guarded by Relay.mu
	stopped  chan struct{} // closed when the stripe is no longer ours
	changed  chan struct{} // holds a token when what is guarded has changed

	mu      sync.Mutex // guards what follows; no other lock is taken under it
	wanted  Peer
	token   string
	stripes int
}

// followed is a FOLLOW that was accepted.
type followed struct {
	peer    Peer
	c       *conn
	tag     uint32
	call    *call
	token   string
	stripes int
}

func newFollowing(function string, stripe int) *following {
	return &following{function: function, stripe: stripe, stopped: make(chan struct{}), changed: make(chan struct{}, 1)}
}

// set says whom to follow.
func (f *following) set(p Peer, token string, stripes int) {
	f.mu.Lock()
	f.wanted, f.token, f.stripes = p, token, stripes
	f.mu.Unlock()
	f.stir()
}

// stir has run look at what has changed.
func (f *following) stir() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// run follows until it is stopped: the new upstream first, then the old one is
// left.
func (f *following) run(r *Relay) {
	if !f.ready(r) {
		return
	}
	var now *followed
	defer func() { now.leave(f) }()
	failures := 0
	for {
		f.mu.Lock()
		want := followed{peer: f.wanted, token: f.token, stripes: f.stripes}
		f.mu.Unlock()
		var retry <-chan time.Time
		switch {
		case want.peer.VM == "" || want.peer.VM == r.opts.VM: // we are the root
			now.leave(f)
			now = nil
		case now.is(want):
			if now.token != want.token {
				now.c.open(f.function, want.token)
				now.token = want.token
			}
		default:
			next, err := f.follow(r, want)
			if err != nil {
				d := min(firstRetry<<min(failures, 10), lastRetry)
				failures++
				retry = time.After(d/2 + rand.N(d/2))
				log.G(r.ctx).WithError(err).WithFields(log.Fields{"function": f.function, "vm": want.peer.VM}).Debug("relay: cannot follow, will try again")
				break
			}
			failures = 0
			if now != nil && now.c == next.c {
				now.c.forget(now.tag) // its place there is taken
			} else {
				now.leave(f)
			}
			now = next
		}
		select {
		case <-f.changed:
		case <-retry:
		case <-now.news():
			if now.done() {
				now.c.forget(now.tag)
				now = nil
			}
		case <-f.stopped:
			return
		case <-r.ctx.Done():
			return
		}
	}
}

// ready waits until we know what the function's blocks are: before that nothing
// that is pushed could be checked.
func (f *following) ready(r *Relay) bool {
	for {
		changed := r.opts.Catalog.changes()
		if r.opts.Catalog.complete(f.function) {
			return true
		}
		select {
		case <-changed:
		case <-f.stopped:
			return false
		case <-r.ctx.Done():
			return false
		}
	}
}

// follow asks to be sent each new block of the stripe.
func (f *following) follow(r *Relay, want followed) (*followed, error) {
	ctx, cancel := context.WithTimeout(r.ctx, followWithin)
	defer cancel()
	r.mu.Lock()
	n := r.neighbour(want.peer)
	r.mu.Unlock()
	if !n.usable(time.Now()) {
		return nil, fmt.Errorf("%s is left alone: %w", n.vm, errdefs.ErrUnavailable)
	}
	c, err := n.connect(ctx)
	if err != nil {
		return nil, err
	}
	l := c.open(f.function, want.token)
	k := newCall(block.Ref{}, nil)
	k.keep = true
	want.c, want.call = c, k
	want.tag = c.begin(k, frameFollow, 0, follow{l.handle, uint8(f.stripe), uint8(want.stripes)}.marshal())
	if err := c.wait(ctx, want.tag, k); err != nil {
		return nil, err
	}
	return &want, nil
}

// is reports whether f is what is wanted, still.
func (f *followed) is(want followed) bool {
	if f == nil || f.peer != want.peer || f.stripes != want.stripes || f.c.isSpare() {
		return false
	}
	return !f.done()
}

func (f *followed) done() bool {
	f.call.mu.Lock()
	defer f.call.mu.Unlock()
	return f.call.done
}

// news gives a token when f may have ended.
func (f *followed) news() <-chan struct{} {
	if f == nil {
		return nil
	}
	return f.call.news
}

// leave stops following.
func (f *followed) leave(of *following) {
	if f == nil {
		return
	}
	f.c.forget(f.tag)
	f.c.mu.Lock()
	l := f.c.leases[of.function]
	f.c.mu.Unlock()
	if l != nil {
		f.c.out.say(frameLeave, 0, 0, follow{l.handle, uint8(of.stripe), uint8(f.stripes)}.marshal())
	}
}
