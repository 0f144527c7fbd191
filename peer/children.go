package peer

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/peer/identity"
)

// maxPushes bounds the blocks queued for and on their way to one follower.
// Beyond that it has to ask for what it needs.
const maxPushes = 8

// follower is a VM that wants each block of one stripe at once.
type follower struct {
	c       *conn
	tag     uint32 // of its FOLLOW
	handle  uint32
	stripe  int
	stripes int
	active  int // pushes; guarded by Relay.mu
}

// children is who reads a function from us. Guarded by Relay.mu.
type children struct {
	followers []*follower
	strangers []string // VMs that ask although no assignment names them
}

// serveFollow admits a follower, or says that somebody else is to be followed.
func (c *conn) serveFollow(h header, p []byte) error {
	m, err := parseFollow(p)
	if err != nil {
		return err
	}
	g, err := c.granted(m.handle)
	if err != nil {
		c.refuse(h.tag, "", err)
		return nil
	}
	f := &follower{c: c, tag: h.tag, handle: m.handle, stripe: int(m.stripe), stripes: int(m.stripes)}
	epoch, ok, evicted := c.r.admitFollower(g.function, f)
	if evicted != nil {
		evicted.c.moved(evicted.tag, epoch)
	}
	if !ok {
		c.moved(h.tag, epoch)
		return nil
	}
	c.out.say(frameOK, 0, h.tag, nil)
	return nil
}

func (c *conn) serveLeave(p []byte) error {
	m, err := parseFollow(p)
	if err != nil {
		return err
	}
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	for _, k := range c.r.children {
		k.drop(func(f *follower) bool { return f.c == c && f.handle == m.handle && f.stripe == int(m.stripe) })
	}
	return nil
}

// unfollowed forgets the followers on a connection that has ended.
func (r *Relay) unfollowed(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.children {
		k.drop(func(f *follower) bool { return f.c == c })
	}
}

// follows reports whether somebody follows on c.
func (r *Relay) follows(c *conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.children {
		if slices.ContainsFunc(k.followers, func(f *follower) bool { return f.c == c }) {
			return true
		}
	}
	return false
}

func (k *children) drop(which func(*follower) bool) {
	k.followers = slices.DeleteFunc(k.followers, which)
}

// admitFollower takes f unless that makes more followers than allowed, over all
// stripes. One that the last assignment names takes the place of one that it
// does not name. epoch is of that assignment.
func (r *Relay) admitFollower(function string, f *follower) (epoch uint64, ok bool, evicted *follower) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.places[function]
	if p != nil {
		epoch = p.place.Epoch
	}
	k := r.childrenOf(function)
	k.drop(func(o *follower) bool { return o.c.vm == f.c.vm && o.stripe == f.stripe })
	if len(k.followers) >= r.opts.Children {
		i := slices.IndexFunc(k.followers, func(o *follower) bool { return !p.names(o.c.vm, o.stripe) })
		if i < 0 || !p.names(f.c.vm, f.stripe) {
			return epoch, false, nil
		}
		evicted = k.followers[i]
		k.followers = slices.Delete(k.followers, i, i+1)
	}
	k.followers = append(k.followers, f)
	return epoch, true, evicted
}

// childrenOf is called with mu held.
func (r *Relay) childrenOf(function string) *children {
	k := r.children[function]
	if k == nil {
		k = &children{}
		r.children[function] = k
	}
	return k
}

// admitGet reports whether vm may ask for blocks. Children may, and before they
// are known as such as many VMs as there may be children; beyond those one more,
// whose own upstream is late, until the next assignment. What is stored anybody
// of the tree may ask for.
func (r *Relay) admitGet(function, vm string, stored bool) (epoch uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.places[function]
	if p != nil {
		epoch = p.place.Epoch
	}
	k := r.childrenOf(function)
	if stored || p.names(vm, -1) || slices.Contains(k.strangers, vm) ||
		slices.ContainsFunc(k.followers, func(f *follower) bool { return f.c.vm == vm }) {
		return epoch, true
	}
	if p.children()+len(k.strangers) > r.opts.Children {
		return epoch, false
	}
	k.strangers = append(k.strangers, vm)
	return epoch, true
}

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
	s := &sending{sum: ref.Sum, stream: c.stream(), cancel: cancel, done: make(chan struct{})}
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
		c.sendPush(ctx, tag, push{f.handle, ref}, tap, s)
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

func (c *conn) serveUrge(tag uint32) {
	c.mu.Lock()
	s := c.sends[tag]
	c.mu.Unlock()
	if s != nil {
		s.urge(c)
	}
}

// wants reports whether a follower may still have the function, and is not
// being sent the block anyway.
func (c *conn) wants(handle uint32, ref block.Ref) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.grants[handle]
	if g == nil || time.Now().After(g.expires.Add(identity.Leeway)) {
		return false
	}
	for _, s := range c.serves {
		if s.sum == ref.Sum {
			return false
		}
	}
	return true
}

// sendPush announces a block together with its first piece: the other side waits
// for it from then on.
func (c *conn) sendPush(ctx context.Context, tag uint32, m push, tap block.Tap, s *sending) {
	announced := false
	t := transfer{class: s.class, header: header{kind: frameData, flags: flagPush, tag: tag}, stream: s.stream}
	err := c.sendTap(ctx, t, &opening{Tap: tap, first: func() error {
		announced = true
		body := m.marshal()
		return c.out.send(ctx, s.class(), &packet{
			header: header{framePush, 0, tag, uint32(len(body))}, stream: t.stream, body: body,
		})
	}}, func() {})
	if announced {
		c.finish(flagPush, tag, err)
	}
}

// opening calls first before the first piece of a tap.
type opening struct {
	block.Tap
	first func() error
}

func (o *opening) Next(ctx context.Context) ([]byte, error) {
	p, err := o.Tap.Next(ctx)
	if err == nil && o.first != nil {
		err = o.first()
		o.first = nil
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// serveOrder tells in which order our own container read the function's blocks.
func (c *conn) serveOrder(h header, p []byte) error {
	r := reader{p: p}
	handle := r.u32()
	if err := r.end("ORDER"); err != nil {
		return err
	}
	g, err := c.granted(handle)
	if err != nil {
		c.refuse(h.tag, "", err)
		return nil
	}
	b := appendOrder(nil, c.r.opts.Catalog.order(g.function))
	c.out.say(frameOrdered, 0, h.tag, b)
	return nil
}

var errNotWanted = fmt.Errorf("not wanted: %w", errdefs.ErrAborted)
