package peer

import (
	"slices"
	"sync/atomic"
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
	active  int          // pushes; guarded by Relay.mu
	asks    atomic.Int32 // so many of the next blocks are announced alone
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

// maxForeign bounds the functions that others read from us although we have no place
// in them, not yet or not any more.
const maxForeign = 64

// childrenOf is called with mu held.
func (r *Relay) childrenOf(function string) *children {
	k := r.children[function]
	if k == nil {
		if r.places[function] == nil && len(r.children) >= len(r.places)+maxForeign {
			r.dismissForeign()
		}
		k = &children{}
		r.children[function] = k
	}
	return k
}

// dismissForeign forgets who reads one of the functions that we have no place in.
// mu is held.
func (r *Relay) dismissForeign() {
	for function := range r.children {
		if r.places[function] == nil {
			r.dismiss(function)
			return
		}
	}
}

// admitGet reports whether vm may ask for blocks. Children may, and before they
// are known as such twice as many VMs as there may be children: in a burst an
// assignment that names others may reach them before it reaches us, and there may be
// orphans. What is stored anybody of the tree may ask for.
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
	if p.children()+len(k.strangers) >= 2*r.opts.Children {
		return epoch, false
	}
	k.strangers = append(k.strangers, vm)
	return epoch, true
}
