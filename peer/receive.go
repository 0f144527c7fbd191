package peer

import (
	"bufio"
	"fmt"
	"io"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
)

// incoming is a block that is being pushed to us.
type incoming struct {
	sink block.Sink
	ref  block.Ref
	n    int
}

// maxPushed bounds what one VM may push to us at a time, in blocks; more than
// any sends.
const maxPushed = 4 * maxPushes

// receive takes a PUSH, or cancels it.
func (c *conn) receive(h header, p []byte) error {
	m, err := parsePush(p)
	if err != nil {
		return err
	}
	c.mu.Lock()
	_, again := c.pushed[h.tag]
	c.mu.Unlock()
	if again {
		return fmt.Errorf("PUSH with a tag in use: %w", errProtocol)
	}
	in := c.offer(m)
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

// offer returns nil where the block is not wanted: it is here or on its way, or
// is none of the function's that we follow there.
func (c *conn) offer(m push) *incoming {
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
	if ours, _ := c.r.opts.Catalog.holds(function, m.ref); !ours {
		return nil
	}
	sink, err := c.r.blocks.Offer(c.ctx, m.ref, func(err error) { c.r.corrupt(c.vm, function, err) })
	if err != nil {
		return nil
	}
	return &incoming{sink: sink, ref: m.ref}
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
	if _, err := io.ReadFull(in, i.sink.Buffer()[i.n:i.n+int(h.size)]); err != nil {
		return err
	}
	i.n += int(h.size)
	if !i.sink.Arrived(i.n) {
		c.mu.Lock()
		c.pushed[h.tag] = nil // until its END or ABORT
		c.mu.Unlock()
		i.sink.End(errNotWanted)
		c.out.say(frameCancel, flagPush, h.tag, nil)
	}
	return nil
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
