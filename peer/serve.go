package peer

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
)

// lack is why a VM does not have a block, the payload of NOT_HAVE.
type lack uint8

const (
	lackBlock   lack = 1 // not stored, and we were not to get it
	lackRing    lack = 2 // we wait for the asker
	lackUnknown lack = 3 // not a block of the function, as far as we know
	lackHops    lack = 4 // no more hops
	lackBusy    lack = 5 // too many requests
)

func (l lack) String() string {
	if names := [...]string{"", "not stored", "ring", "not of the function", "no hops left", "busy"}; int(l) < len(names) {
		return names[l]
	}
	return "unknown reason"
}

// maxServes bounds the requests of one VM that are being answered.
const maxServes = 256

// knownWithin is how long a request waits for this VM to find out what its
// function's blocks are.
const knownWithin = 2 * time.Second

// serving is a request of the other side that is being answered.
type serving struct {
	sum    block.Sum // of a GET
	wish   *block.Wish
	stream uint64
	cancel context.CancelFunc
}

func (s *serving) class() class {
	if u, _ := s.wish.Urgency(); u != block.Now {
		return background
	}
	return answers
}

// serve answers a GET in a goroutine of its own.
func (c *conn) serve(h header, sum block.Sum, work func(ctx context.Context, s *serving)) {
	ctx, cancel := context.WithCancel(c.ctx)
	tag, s := h.tag, &serving{sum: sum, wish: block.NewWish(h.urgency()), cancel: cancel}
	c.mu.Lock()
	full := len(c.serves) >= maxServes || c.serves[tag] != nil
	if !full {
		c.streams++
		s.stream = c.streams
		c.serves[tag], c.used = s, time.Now()
	}
	c.mu.Unlock()
	if full {
		cancel()
		c.out.say(frameNotHave, 0, tag, []byte{byte(lackBusy)})
		return
	}
	c.work.Go(func() {
		defer func() {
			cancel()
			c.mu.Lock()
			delete(c.serves, tag)
			c.mu.Unlock()
		}()
		work(block.WithWish(ctx, s.wish), s)
	})
}

// serveUrge makes a transfer of ours more urgent: somebody waits for it by now, or
// will soon.
func (c *conn) serveUrge(h header) {
	c.mu.Lock()
	push, s := c.sends[h.tag], c.serves[h.tag]
	c.mu.Unlock()
	switch {
	case h.push() && push != nil:
		push.urge(c)
	case !h.push() && s != nil:
		s.wish.Raise(h.urgency())
		if s.class() == answers {
			c.out.urge(s.stream)
		}
	}
}

func (c *conn) serveCancel(h header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.push() {
		if s := c.sends[h.tag]; s != nil {
			s.cancel()
			s.sum = block.Sum{}
		}
	} else if s := c.serves[h.tag]; s != nil {
		s.cancel()
	}
}

// serveGet answers a GET.
func (c *conn) serveGet(h header, p []byte) error {
	m, err := parseGet(p)
	if err != nil {
		return err
	}
	g, err := c.granted(m.handle)
	if err != nil {
		c.refuse(h.tag, "", err)
		return nil
	}
	c.r.metrics.gets.Add(1)
	for _, v := range m.path {
		if v == c.r.waits.self { // whoever asked us waits for itself
			c.out.say(frameNotHave, 0, h.tag, []byte{byte(lackRing)})
			return nil
		}
	}
	storedOnly := h.flags&flagStored != 0
	if epoch, ok := c.r.admitGet(g.function, c.vm, storedOnly); !ok {
		c.moved(h.tag, epoch)
		return nil
	}
	c.serve(h, m.ref.Sum, func(ctx context.Context, s *serving) { c.answer(ctx, h.tag, g.function, m, storedOnly, s) })
	return nil
}

// answer sends the block, or says why not.
func (c *conn) answer(ctx context.Context, tag uint32, function string, m get, storedOnly bool, s *serving) {
	if ok := c.ours(ctx, tag, function, m.ref); !ok {
		if ctx.Err() == nil {
			c.note(function, fmt.Errorf("%v is not of the function: %w", m.ref, errdefs.ErrPermissionDenied))
			c.out.say(frameNotHave, 0, tag, []byte{byte(lackUnknown)})
		}
		return
	}
	c.crossed(ctx, tag, s)
	t := transfer{class: s.class, header: header{kind: frameData, tag: tag}, stream: s.stream}
	f, err := c.r.blocks.Open(ctx, m.ref)
	switch {
	case err == nil:
		defer f.Close()
		err = c.sendFile(ctx, t, f, m.ref.Size)
	case storedOnly:
		c.out.say(frameNotHave, 0, tag, []byte{byte(lackBlock)})
		return
	case m.hops == 0:
		c.out.say(frameNotHave, 0, tag, []byte{byte(lackHops)})
		return
	default:
		waiting := c.r.waits.enter(m.ref.Sum, m.path, m.hops)
		defer c.r.waits.leave(m.ref.Sum, waiting)
		tap, failed := c.r.blocks.Tap(ctx, m.ref)
		if failed != nil {
			c.out.say(frameNotHave, 0, tag, []byte{byte(lackBlock)})
			return
		}
		defer tap.Close()
		err = c.sendTap(ctx, &t, tap, func() {
			c.out.say(frameNotYet, 0, tag, appendPath(nil, c.r.waits.path(m.ref.Sum)))
		})
	}
	c.finish(0, tag, err)
}

// crossed waits while a block that is asked for is on its way already: we push
// it, and had begun before the GET came. The asker sees that and takes it.
func (c *conn) crossed(ctx context.Context, tag uint32, asked *serving) {
	c.mu.Lock()
	var s *sending
	for _, o := range c.sends {
		if o.sum == asked.sum {
			s = o
		}
	}
	c.mu.Unlock()
	if s == nil {
		return
	}
	_, risen := asked.wish.Urgency()
	if asked.class() == answers {
		s.urge(c)
	}
	tick := time.NewTicker(c.r.opts.KeepAlive)
	defer tick.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-risen:
			if _, risen = asked.wish.Urgency(); risen == nil {
				s.urge(c)
			}
		case <-ctx.Done():
			return
		case <-tick.C:
			c.out.say(frameNotYet, 0, tag, appendPath(nil, []id{c.r.waits.self}))
		}
	}
}

// finish ends a transfer with our verdict.
func (c *conn) finish(flags uint8, tag uint32, err error) {
	if err == nil {
		c.out.say(frameEnd, flags, tag, nil)
		return
	}
	c.out.say(frameAbort, flags, tag, nil)
}

// ours waits until we know whether ref is a block of the function.
func (c *conn) ours(ctx context.Context, tag uint32, function string, ref block.Ref) bool {
	ours, known := c.r.holds(function, ref)
	if known {
		return ours
	}
	ctx, cancel := context.WithTimeout(ctx, knownWithin)
	defer cancel()
	tick := time.NewTicker(c.r.opts.KeepAlive)
	defer tick.Stop()
	for {
		changed := c.r.opts.Catalog.changes()
		if ours, known = c.r.holds(function, ref); known {
			return ours
		}
		select {
		case <-changed:
		case <-tick.C:
			c.out.say(frameNotYet, 0, tag, appendPath(nil, []id{c.r.waits.self}))
		case <-ctx.Done():
			return false
		}
	}
}

func (c *conn) moved(tag uint32, epoch uint64) {
	c.r.metrics.moved.Add(1)
	c.out.say(frameMoved, 0, tag, binary.BigEndian.AppendUint64(nil, epoch))
}
