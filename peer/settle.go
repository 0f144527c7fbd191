package peer

import (
	"fmt"
	"net"
	"time"

	"github.com/containerd/errdefs"
)

// One connection carries all between two VMs, whoever made it. Two VMs that dial
// each other at the same moment have two: then that of the VM with the smaller
// name goes before. The other VM, which made the spare one, follows on the good
// one, asks nothing more on the spare one, and ends it when what was begun there is
// done.

// errSpare ends a connection that is not needed beside another one.
var errSpare = fmt.Errorf("there is another connection: %w", errdefs.ErrUnavailable)

// adopt takes a connection that n made, and on which it has shown a token, as
// ours to n: if it comes from n's address, or n's certificate proves it.
// Otherwise somebody who got hold of a token of n could collect ours.
func (r *Relay) adopt(c *conn) {
	r.mu.Lock()
	n := r.neighbours[c.vm]
	r.mu.Unlock()
	if n == nil || c.dialed {
		return
	}
	if old := n.adopt(c); old != nil {
		r.forgo(old)
	}
}

// adopt returns the connection that is spare now, if any.
func (n *neighbour) adopt(c *conn) (spare *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	old := n.conn
	if old != nil && old.ctx.Err() != nil {
		old = nil
	}
	if (old != nil || n.dialing != nil) && n.vm > n.r.opts.VM || old != nil && !old.dialed {
		return nil
	}
	if n.r.opts.TLS == nil && !sameHost(c.net.RemoteAddr().String(), n.address) {
		return nil
	}
	n.conn, n.failures, n.notBefore = c, 0, time.Time{}
	return old
}

// adoptAny adopts a connection that vm made before we had reason to ask it.
func (r *Relay) adoptAny(vm string) {
	r.mu.Lock()
	var made []*conn
	for c := range r.conns {
		if c.vm == vm && !c.dialed {
			made = append(made, c)
		}
	}
	r.mu.Unlock()
	for _, c := range made {
		if c.isProven() {
			r.adopt(c)
		}
	}
}

// forgo makes a connection that we made spare.
func (r *Relay) forgo(c *conn) {
	c.mu.Lock()
	c.spare = true
	if c.idle != nil {
		c.idle.Reset(0)
	}
	c.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.places {
		for _, f := range p.following {
			f.stir()
		}
	}
}

func (c *conn) isSpare() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spare
}

// isProven reports whether the other side has shown a good token.
func (c *conn) isProven() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proven && c.ctx.Err() == nil
}

func sameHost(a, b string) bool {
	x, _, err := net.SplitHostPort(a)
	y, _, err2 := net.SplitHostPort(b)
	if err != nil || err2 != nil {
		return false
	}
	i, j := net.ParseIP(x), net.ParseIP(y)
	return i != nil && i.Equal(j) || i == nil && x == y // names: of a network that is none of the kernel's
}
