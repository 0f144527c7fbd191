package peer

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
)

// Received pushes a block that has begun to arrive to those who follow its
// stripe. It does not wait.
func (r *Relay) Received(ref block.Ref) {
	if ref.Number == block.Section {
		return
	}
	for _, at := range r.opts.Catalog.find(ref) {
		for _, f := range r.followers(at) {
			if !f.push(ref) {
				r.pushed(f)
			}
		}
	}
}

// followers returns those who follow the stripe of a block and have room for
// it, and counts it for each.
func (r *Relay) followers(at position) []*follower {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.children[at.function]
	if k == nil {
		return nil
	}
	var out []*follower
	for _, f := range k.followers {
		switch {
		case at.number%f.stripes != f.stripe:
		case f.active >= maxPushes:
			r.metrics.dropped.Add(1)
		default:
			f.active++
			out = append(out, f)
		}
	}
	return out
}

// pushed ends a push.
func (r *Relay) pushed(f *follower) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.active--
}

// push begins to send a block that is in flight. false means that there is
// nothing to send.
func (f *follower) push(ref block.Ref) bool {
	c := f.c
	if !c.wants(f.handle, ref) {
		return false
	}
	tap, err := c.r.blocks.Watch(ref)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithCancel(c.ctx)
	s := &sending{sum: ref.Sum, stream: c.stream(), cancel: cancel, done: make(chan struct{}), seen: make(chan struct{}, 1)}
	c.mu.Lock()
	c.tag++
	tag := c.tag
	c.sends[tag] = s
	c.mu.Unlock()
	end := func() {
		tap.Close()
		cancel()
		c.mu.Lock()
		delete(c.sends, tag)
		c.mu.Unlock()
		close(s.done)
	}
	started := c.start(func() {
		defer c.r.pushed(f)
		defer end()
		c.r.metrics.pushes.Add(1)
		c.sendPush(ctx, tag, push{f.handle, ref}, tap, s, f)
	})
	if !started {
		end()
	}
	return started
}

// sending is a block that we push.
type sending struct {
	sum    block.Sum // zero when it is not wanted; guarded by conn.mu
	stream uint64
	urged  atomic.Bool // somebody waits for it
	cancel context.CancelFunc
	done   chan struct{}
	seen   chan struct{} // holds a token when the other side has had the chance to cancel it
}

func (s *sending) class() class {
	if s.urged.Load() {
		return answers
	}
	return pushes
}

func (s *sending) urge(c *conn) {
	s.urged.Store(true)
	c.out.urge(s.stream)
}

// wants reports whether a follower may still have the function, and is not
// being sent the block anyway.
func (c *conn) wants(handle uint32, ref block.Ref) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.grants[handle]
	if g == nil || g.expired() {
		return false
	}
	for _, s := range c.serves {
		if s.sum == ref.Sum {
			return false
		}
	}
	return true
}

// askNext is how many blocks are announced alone to a follower that has cancelled a
// push. One that has come from elsewhere in the tree may have many blocks
// that are new to us, and a piece of each is much on a slow link.
const askNext = 16

// seen is told that the other side has answered a PING.
func (c *conn) seen(tag uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.sends[tag]; s != nil {
		select {
		case s.seen <- struct{}{}:
		default:
		}
	}
}

// waitSeen waits until the other side has had the chance to cancel a push. One that
// reads nothing meanwhile loses the connection, as it does when data wait for it.
func (c *conn) waitSeen(ctx context.Context, s *sending) {
	unread := time.NewTimer(writeTimeout)
	defer unread.Stop()
	select {
	case <-s.seen:
	case <-unread.C:
		c.close(fmt.Errorf("%s answers no PING for %v: %w", c.vm, writeTimeout, errdefs.ErrUnavailable))
	case <-ctx.Done():
	}
}

// sendPush announces a block together with its first piece: the other side waits
// for it from then on. If it may not want it, it is announced alone.
func (c *conn) sendPush(ctx context.Context, tag uint32, m push, tap block.Tap, s *sending, f *follower) {
	body := m.marshal()
	t := transfer{
		class: s.class, header: header{kind: frameData, flags: flagPush, tag: tag}, stream: s.stream,
		before: append(header{framePush, 0, tag, uint32(len(body))}.append(nil), body...),
	}
	if f.asks.Load() > 0 {
		f.asks.Add(-1)
		c.out.say(framePush, 0, tag, body)
		t.before = nil
		c.out.say(framePing, 0, tag, nil) // PONG comes behind a CANCEL
		c.waitSeen(ctx, s)
	}
	err := c.sendTap(ctx, &t, tap, func() {})
	if ctx.Err() != nil {
		f.asks.Store(askNext)
	}
	if t.before == nil {
		c.finish(flagPush, tag, err)
	}
}

var errNotWanted = fmt.Errorf("not wanted: %w", errdefs.ErrAborted)
