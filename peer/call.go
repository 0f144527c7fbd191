package peer

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
)

// call is something that we asked and what came of it.
type call struct {
	ref   block.Ref // of a GET
	keep  bool      // a FOLLOW: it stays when it is accepted
	dst   []byte    // where its block goes, as long as the block
	began time.Time

	mu      sync.Mutex // guards the rest; no other lock is taken under it
	n       int        // bytes of dst that are there
	reading bool       // the connection's reader is writing to dst
	gone    bool       // nobody waits: nothing is written to dst any more
	path    []id       // of the last NOT_YET
	holds   bool       // a FOLLOW that was accepted
	numbers []int      // of an ORDERED
	done    bool
	err     error
	news    chan struct{} // holds a token when any of this changed
}

func newCall(ref block.Ref, dst []byte) *call {
	return &call{ref: ref, dst: dst, began: time.Now(), news: make(chan struct{}, 1)}
}

// change applies f and wakes who waits.
func (k *call) change(f func()) {
	k.mu.Lock()
	f()
	k.mu.Unlock()
	select {
	case k.news <- struct{}{}:
	default:
	}
}

// untouched reports whether the block is still waited for, and nothing has come.
func (k *call) untouched() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.n == 0 && !k.reading && !k.gone && !k.done
}

// missing returns how many bytes of the block are still to come.
func (k *call) missing() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.dst) - k.n
}

func (k *call) finish(err error) {
	k.change(func() {
		if !k.done {
			k.done, k.err = true, err
		}
	})
}

// leave gives the call up: afterwards dst is the caller's. It waits while a
// piece is being read, which ends with the piece or with the connection.
func (k *call) leave() {
	for {
		k.mu.Lock()
		k.gone = true
		reading := k.reading
		k.mu.Unlock()
		if !reading {
			return
		}
		<-k.news
	}
}

// begin sends a request and expects its answer.
func (c *conn) begin(k *call, what kind, flags uint8, payload []byte) uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.beginLocked(k, what, flags, payload)
}

// beginLocked is begin for a caller that holds mu.
func (c *conn) beginLocked(k *call, what kind, flags uint8, payload []byte) uint32 {
	c.tag++
	tag := c.tag
	if c.ctx.Err() != nil {
		k.finish(c.reason())
		return tag
	}
	c.calls[tag], c.used = k, time.Now()
	c.expect()
	c.out.say(what, flags, tag, payload)
	return tag
}

// forget ends a call that was answered.
func (c *conn) forget(tag uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, tag)
}

func (c *conn) call(tag uint32) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[tag]
}

// wait waits for the answer to a request that brings no block. A FOLLOW that is
// accepted goes on being a call.
func (c *conn) wait(ctx context.Context, tag uint32, k *call) error {
	for {
		k.mu.Lock()
		done, holds, err := k.done, k.holds, k.err
		k.mu.Unlock()
		if holds && !done {
			return nil
		}
		if done {
			c.forget(tag)
			return err
		}
		select {
		case <-k.news:
		case <-ctx.Done():
			c.forget(tag)
			return ctx.Err()
		}
	}
}

// replyPiece reads DATA of an answer into its place.
func (c *conn) replyPiece(h header, in *bufio.Reader) error {
	k := c.call(h.tag)
	if k == nil {
		_, err := in.Discard(int(h.size))
		return err
	}
	for left := int(h.size); left > 0; left -= pieceSize {
		c.low.want(min(left, pieceSize) - in.Buffered())
		if err := k.read(min(left, pieceSize), left, in); err != nil {
			return err
		}
	}
	c.r.metrics.received.Add(int64(h.size))
	return nil
}

// read reads n bytes of a DATA of which so many are left.
func (k *call) read(n, left int, in *bufio.Reader) error {
	k.mu.Lock()
	at, gone := k.n, k.gone || k.done
	if !gone && at+left > len(k.dst) {
		k.mu.Unlock()
		return fmt.Errorf("%v: more than %d bytes: %w", k.ref, len(k.dst), errProtocol)
	}
	k.reading = !gone
	k.mu.Unlock()
	if gone {
		_, err := in.Discard(n)
		return err
	}
	_, err := io.ReadFull(in, k.dst[at:at+n])
	k.change(func() {
		k.reading = false
		if err == nil {
			k.n += n
		}
	})
	return err
}

// reply takes an answer that is no DATA.
func (c *conn) reply(h header, p []byte) error {
	k := c.call(h.tag)
	if k == nil {
		return nil // given up
	}
	r := reader{p: p}
	switch h.kind {
	case frameNotYet:
		path := r.path()
		k.change(func() { k.path = path })
		return r.end("NOT_YET")
	case frameOrdered:
		numbers := r.order()
		k.change(func() { k.numbers = numbers })
		k.finish(nil)
		return r.end("ORDERED")
	}
	if h.kind == frameOK && k.keep {
		k.change(func() { k.holds = true })
		return nil
	}
	c.forget(h.tag)
	switch h.kind {
	case frameOK, frameEnd:
		k.finish(nil)
	case frameAbort:
		c.r.metrics.aborts.Add(1)
		k.finish(fmt.Errorf("%s aborted: %w", c.vm, errdefs.ErrAborted))
	case frameNotHave:
		k.finish(fmt.Errorf("%s does not have it (%v): %w", c.vm, lack(r.u8()), errdefs.ErrNotFound))
	case frameMoved:
		k.finish(fmt.Errorf("%s has moved (epoch %d): %w", c.vm, r.u64(), errMoved))
	case frameRefused:
		k.finish(fmt.Errorf("%s refused: %s: %w", c.vm, r.text16(maxText), errdefs.ErrPermissionDenied))
	}
	return r.end("answer")
}

// errMoved is the answer of a VM that is not ours to ask.
var errMoved = fmt.Errorf("not ours to ask: %w", errdefs.ErrUnavailable)
