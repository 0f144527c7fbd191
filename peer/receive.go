package peer

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
)

// incoming is a block that is being pushed to us.
type incoming struct {
	sink block.Sink
	ref  block.Ref
	n    int
}

// maxPushed bounds what we take of what one VM pushes to us at a time, in blocks,
// over all functions. The rest we cancel.
const maxPushed = 4 * maxPushes

// maxPending bounds the pushes of one VM that have not ended, cancelled ones too:
// more than come of maxPushes for each stripe of as many functions as a VM is in.
const maxPending = 2048

// receive takes a PUSH, or cancels it.
func (c *conn) receive(h header, p []byte) error {
	m, err := parsePush(p)
	if err != nil {
		return err
	}
	c.mu.Lock()
	_, again := c.pushed[h.tag]
	pending := len(c.pushed)
	c.mu.Unlock()
	switch {
	case again:
		return fmt.Errorf("PUSH with a tag in use: %w", errProtocol)
	case pending >= maxPending:
		return fmt.Errorf("%d pushes that do not end: %w", pending, errProtocol)
	}
	in := c.adopt(m)
	if in == nil {
		in = c.offer(h.tag, m)
	}
	c.mu.Lock()
	c.pushed[h.tag] = in
	c.expect()
	c.mu.Unlock()
	if in == nil {
		c.r.metrics.unwanted.Add(1)
		c.out.say(frameCancel, flagPush, h.tag, nil)
	}
	return nil
}

// adopt takes a push as the answer to our own GET of the block, which crossed
// it on the way.
func (c *conn) adopt(m push) *incoming {
	c.mu.Lock()
	defer c.mu.Unlock()
	for tag, k := range c.calls {
		if k.dst == nil || k.ref != m.ref || !k.untouched() {
			continue
		}
		delete(c.calls, tag)
		c.out.say(frameCancel, 0, tag, nil)
		return &incoming{sink: &adopted{k}, ref: m.ref}
	}
	return nil
}

// adopted is the Sink of a block that we asked for and that was on its way.
type adopted struct{ k *call }

func (a *adopted) Buffer() []byte { return a.k.dst }

// begin reports whether a piece may be read into Buffer, until Arrived or End.
func (a *adopted) begin() bool {
	a.k.mu.Lock()
	defer a.k.mu.Unlock()
	a.k.reading = !a.k.gone
	return a.k.reading
}

func (a *adopted) Arrived(n int) bool {
	a.k.change(func() { a.k.n, a.k.reading = n, false })
	return true
}

func (a *adopted) End(err error) {
	a.k.change(func() { a.k.reading = false })
	a.k.finish(err)
}

// offer returns nil where the block is not wanted: it is here or on its way, or
// is none of the function's that we follow there.
func (c *conn) offer(tag uint32, m push) *incoming {
	c.mu.Lock()
	function, full := "", len(c.pushed) >= maxPushed
	for name, l := range c.leases {
		if l.handle == m.handle {
			function = name
		}
	}
	c.mu.Unlock()
	if function == "" || full || m.ref.Number == block.Section {
		return nil
	}
	if ours, _ := c.r.holds(function, m.ref); !ours {
		return nil
	}
	sink, err := c.r.blocks.Offer(c.ctx, m.ref, &pusher{c, tag, function})
	if err != nil {
		return nil
	}
	return &incoming{sink: sink, ref: m.ref}
}

// pusher is the Sender of a block that is pushed to us.
type pusher struct {
	c        *conn
	tag      uint32
	function string
}

// Urge tells the other side that somebody waits for the block.
func (p *pusher) Urge() { p.c.out.say(frameUrge, flagPush, p.tag, nil) }

// Corrupt blames the other side.
func (p *pusher) Corrupt(err error) { p.c.r.corrupt(p.c.vm, p.function, err) }

// stir shows, now and then, those who wait for pushes that wait for their turn
// that the other side lives. The reader calls it.
func (c *conn) stir() {
	now := time.Now()
	if now.Sub(c.stirred) < c.r.opts.KeepAlive {
		return
	}
	c.stirred = now
	c.mu.Lock()
	var waiting []*incoming
	for _, i := range c.pushed {
		if i != nil && i.n < i.ref.Size {
			waiting = append(waiting, i)
		}
	}
	c.mu.Unlock()
	for _, i := range waiting {
		if _, ok := i.sink.(*adopted); !ok {
			i.sink.Arrived(i.n) // that it is not wanted is seen with the next piece
		}
	}
}

// receivePiece reads DATA of a push into its place.
func (c *conn) receivePiece(h header, in *bufio.Reader) error {
	c.mu.Lock()
	i := c.pushed[h.tag]
	c.mu.Unlock()
	c.r.metrics.received.Add(int64(h.size))
	if i == nil {
		_, err := in.Discard(int(h.size))
		return err
	}
	if i.n+int(h.size) > i.ref.Size {
		return fmt.Errorf("%v: more than %d bytes: %w", i.ref, i.ref.Size, errProtocol)
	}
	for left := int(h.size); left > 0; {
		if a, ok := i.sink.(*adopted); ok && !a.begin() {
			return c.refuseRest(h.tag, i, left, in)
		}
		n := min(left, pieceSize)
		c.low.want(n - in.Buffered())
		if _, err := io.ReadFull(in, i.sink.Buffer()[i.n:i.n+n]); err != nil {
			return err
		}
		i.n += n
		left -= n
		if !i.sink.Arrived(i.n) {
			return c.refuseRest(h.tag, i, left, in)
		}
	}
	return nil
}

// refuseRest cancels a push in the midst of a DATA of which so much is left.
func (c *conn) refuseRest(tag uint32, i *incoming, left int, in *bufio.Reader) error {
	c.unwant(tag, i)
	c.low.want(left - in.Buffered())
	_, err := in.Discard(left)
	return err
}

// unwant cancels a push. Until its END or ABORT comes the rest is discarded.
func (c *conn) unwant(tag uint32, i *incoming) {
	c.mu.Lock()
	c.pushed[tag] = nil
	c.mu.Unlock()
	i.sink.End(errNotWanted)
	c.out.say(frameCancel, flagPush, tag, nil)
}

// pushing reports whether the block is being pushed to us, and wanted.
func (c *conn) pushing(ref block.Ref) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range c.pushed {
		if i != nil && i.ref == ref {
			return true
		}
	}
	return false
}

// received takes the END or ABORT of a push.
func (c *conn) received(h header, _ []byte) error {
	c.mu.Lock()
	i, known := c.pushed[h.tag]
	delete(c.pushed, h.tag)
	c.mu.Unlock()
	switch {
	case !known:
		return fmt.Errorf("end of a push that is none: %w", errProtocol)
	case i == nil:
	case h.kind == frameEnd && i.n < i.ref.Size:
		err := fmt.Errorf("%v: good verdict on %d of %d bytes: %w", i.ref, i.n, i.ref.Size, errProtocol)
		i.sink.End(err)
		return err
	case h.kind == frameEnd:
		i.sink.End(nil)
	default:
		c.r.metrics.aborts.Add(1)
		i.sink.End(fmt.Errorf("%s aborted: %w", c.vm, errdefs.ErrAborted))
	}
	return nil
}
