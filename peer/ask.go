package peer

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
)

// lease is a function that we have opened at the other side.
type lease struct {
	handle uint32
	token  string
	call   *call // of the OPEN
}

// refused reports whether the answer was a refusal.
func (l *lease) refused() bool {
	l.call.mu.Lock()
	defer l.call.mu.Unlock()
	return l.call.done && l.call.err != nil
}

// open makes sure that the other side knows our token for the function, and
// returns the handle. It does not wait for the answer: what is asked with a
// handle that is refused is refused as well.
func (c *conn) open(function, token string) *lease {
	c.sweepLeases(function)
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.leases[function]
	if l != nil && l.token == token && !l.refused() {
		return l
	}
	if l == nil {
		c.handle++
		l = &lease{handle: c.handle}
	} else {
		l = &lease{handle: l.handle}
	}
	l.token, l.call = token, newCall(block.Ref{}, nil)
	c.leases[function] = l
	c.beginLocked(l.call, frameOpen, 0, open{l.handle, function, token}.marshal()) // before anybody asks with the handle
	return l
}

// maxLeases is how many functions are opened on a connection before those are
// forgotten that we have left.
const maxLeases = 64

// sweepLeases makes room for one more function, if need be.
func (c *conn) sweepLeases(more string) {
	c.mu.Lock()
	full := len(c.leases) >= maxLeases && c.leases[more] == nil
	c.mu.Unlock()
	if !full {
		return
	}
	ours := c.r.functions()
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.leases, func(function string, _ *lease) bool { return !ours[function] })
}

// get asks for a block, as urgently as the wish of ctx, and fills dst, which is as
// long as the block.
func (c *conn) get(ctx context.Context, l *lease, ref block.Ref, dst []byte, flags uint8, arrived func(int)) error {
	if c.pushing(ref) {
		return fmt.Errorf("%s is sending %v already: %w", c.vm, ref, errdefs.ErrAlreadyExists)
	}
	asked, path, hops := c.r.waits.ask(ref.Sum, idOf(c.vm))
	defer c.r.waits.answered(ref.Sum, asked)
	k := newCall(ref, dst)
	wish := block.WishOf(ctx)
	u, risen := wish.Urgency()
	tag := c.begin(k, frameGet, flags|urgencyFlags(u), get{handle: l.handle, hops: hops, ref: ref, path: path}.marshal())
	tick := time.NewTicker(c.r.opts.KeepAlive)
	defer tick.Stop()
	before, alive := 0, false
	for {
		k.mu.Lock()
		n, done, err := k.n, k.done, k.err
		told := k.path
		k.path = nil
		k.mu.Unlock()
		if n > before || told != nil || alive {
			arrived(n)
		}
		before, alive = n, false
		switch {
		case done && err == nil && n != len(dst):
			return fmt.Errorf("%v from %s: %d of %d bytes: %w", ref, c.vm, n, len(dst), errdefs.ErrDataLoss)
		case done:
			k.leave()
			return err
		case told != nil && c.r.waits.told(asked, told):
			c.r.metrics.rings.Add(1)
			c.giveUp(tag, k)
			return fmt.Errorf("%v from %s, which waits for us: %w", ref, c.vm, errdefs.ErrUnavailable)
		}
		select {
		case <-k.news:
		case <-risen:
			u, risen = wish.Urgency()
			c.out.say(frameUrge, urgencyFlags(u), tag, nil)
		case <-tick.C:
			alive = c.coming(tag)
		case <-ctx.Done():
			c.giveUp(tag, k)
			return ctx.Err()
		}
	}
}

// giveUp cancels a GET. What still comes of it is discarded, by its tag. A piece
// that is being read is still expected: without it nobody would watch for signs of
// life, and leave would wait for as long as the other side is silent. One that gives
// signs of life and not the piece loses the connection.
func (c *conn) giveUp(tag uint32, k *call) {
	c.out.say(frameCancel, 0, tag, nil)
	late := time.AfterFunc(pieceTimeout, func() {
		c.close(fmt.Errorf("%s has not sent a piece in %v: %w", c.vm, pieceTimeout, errdefs.ErrUnavailable))
	})
	defer late.Stop()
	k.leave()
	c.forget(tag)
}

// pieceTimeout ends a connection whose other side does not end a piece.
const pieceTimeout = writeTimeout
