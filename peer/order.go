package peer

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
)

// Order asks the upstream in which order its own container first read the
// function's blocks.
func (r *Relay) Order(ctx context.Context, function string) ([]block.Ref, error) {
	n, token := r.above(function)
	if n == nil {
		return nil, fmt.Errorf("no upstream in %s: %w", function, errdefs.ErrNotFound)
	}
	c, err := n.connect(ctx)
	if err != nil {
		return nil, err
	}
	l := c.open(function, token)
	k := newCall(block.Ref{}, nil)
	tag := c.begin(k, frameOrder, 0, follow{handle: l.handle, stripes: 1}.marshal())
	if err := c.wait(ctx, tag, k); err != nil {
		return nil, err
	}
	return r.opts.Catalog.refs(function, k.numbers), nil
}

// above returns an upstream in the function's tree, nil if there is none.
func (r *Relay) above(function string) (*neighbour, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.places[function]
	if p == nil || !r.running {
		return nil, ""
	}
	for _, s := range p.place.Stripes {
		if s.Upstream.VM != "" && s.Upstream.VM != r.opts.VM {
			return r.neighbour(s.Upstream), p.place.Token
		}
	}
	return nil, ""
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
