package peer

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
)

// conn is one connection to another VM. Either side may ask.
//
// One goroutine reads, one writes. The reader never waits for anything but the
// network: what takes time runs in a goroutine of its own, and nothing is sent
// but through the writer's queues.
type conn struct {
	r      *Relay
	net    net.Conn
	vm     string // of the other side, as it says
	dialed bool
	guest  *guest // nil where we have dialed
	out    *writer
	made   time.Time
	heard  atomic.Int64 // when the last byte came, in ns after made: a clock that is set must not look like silence
	bytes  atomic.Int64 // that came

	stirred time.Time // the reader's
	low     lowat     // the reader's

	ctx    context.Context //nolint:containedctx // ends with the connection
	cancel context.CancelCauseFunc
	work   sync.WaitGroup // goroutines that serve the other side

	mu     sync.Mutex // guards the rest; of other locks only the writer's and those of calls are taken under it
	tag    uint32
	calls  map[uint32]*call     // what we asked, by our tag
	pushed map[uint32]*incoming // what is pushed to us, by their tag; nil: discarded
	leases map[string]*lease    // what we may ask for, by function
	handle uint32

	grants  map[uint32]*grant   // what they may ask for, by their handle
	serves  map[uint32]*serving // what they asked, by their tag
	sends   map[uint32]*sending // what we push, by our tag
	streams uint64              // transfers begun
	proven  bool                // it has shown a token of the VM that it says it is

	since    time.Time   // when we began to expect something
	pinged   time.Time   // when we asked whether it lives
	watch    *time.Timer // runs check; nil before the first time
	watching bool
	doubted  bool // it is reported to be quiet
	queued   int  // bytes that waited for the reader when it was last looked
	pace     pace
	used     time.Time   // when something was asked, by either side
	idle     *time.Timer // runs retire; nil on a connection that they made
	spare    bool        // another one goes before; it ends when it is idle
}

func newConn(r *Relay, c net.Conn, vm string, dialed bool) *conn {
	k := &conn{
		r: r, net: c, vm: vm, dialed: dialed, made: time.Now(), out: newWriter(c, r.uplink), low: newLowat(c),
		calls: map[uint32]*call{}, pushed: map[uint32]*incoming{}, leases: map[string]*lease{},
		grants: map[uint32]*grant{}, serves: map[uint32]*serving{}, sends: map[uint32]*sending{},
	}
	k.ctx, k.cancel = context.WithCancelCause(r.ctx)
	return k
}

// run serves the connection until it ends, and says why it did.
func (c *conn) run() error {
	var both sync.WaitGroup
	c.mu.Lock()
	c.used = time.Now()
	if c.dialed {
		after := idleFor
		if c.spare {
			after = 0
		}
		c.idle = time.AfterFunc(after, c.retire)
	}
	c.mu.Unlock()
	both.Go(func() { c.cancel(c.out.run(c.ctx)) })
	both.Go(func() { c.cancel(c.read()) })
	<-c.ctx.Done()
	c.net.Close()
	both.Wait()
	c.end()
	c.work.Wait()
	err := context.Cause(c.ctx)
	log.G(c.r.ctx).WithField("vm", c.vm).WithError(err).Debug("relay connection ended")
	return err
}

// start runs work that serves the other side, unless the connection has ended.
func (c *conn) start(work func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return false
	}
	c.work.Go(work)
	return true
}

// stream numbers a transfer: those begun first are sent first.
func (c *conn) stream() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams++
	return c.streams
}

// close ends the connection for the reason err.
func (c *conn) close(err error) { c.cancel(err) }

// errClosed is what ends all when the relay is closed.
var errClosed = fmt.Errorf("relay closed: %w", errdefs.ErrUnavailable)

// Read is that of the network, and notes that the other side lives.
func (c *conn) Read(p []byte) (int, error) {
	c.low.read()
	n, err := c.net.Read(p)
	if n > 0 {
		now := time.Now()
		c.hear(now)
		c.bytes.Add(int64(n))
		c.low.got(n, now)
	}
	return n, err
}

// hear notes a sign of life.
func (c *conn) hear(now time.Time) { c.heard.Store(int64(now.Sub(c.made))) }

// lastHeard is when the last sign of life came.
func (c *conn) lastHeard() time.Time { return c.made.Add(time.Duration(c.heard.Load())) }

// read takes frames until the connection fails.
func (c *conn) read() error {
	in := bufio.NewReaderSize(c, 4<<10) // small: payloads of blocks pass it by
	head := make([]byte, headerSize)
	small := make([]byte, 1<<10)
	for {
		if _, err := io.ReadFull(in, head); err != nil {
			return err
		}
		h, err := parseHeader(head)
		if err != nil {
			return err
		}
		if h.kind == frameData {
			if err := c.data(h, in); err != nil {
				return err
			}
			continue
		}
		if !known(h.kind) {
			if _, err := in.Discard(int(h.size)); err != nil {
				return err
			}
			continue
		}
		if int(h.size) > len(small) {
			small = make([]byte, h.size)
		}
		p := small[:h.size]
		if _, err := io.ReadFull(in, p); err != nil {
			return err
		}
		if err := c.frame(h, p); err != nil {
			return err
		}
	}
}

func known(k kind) bool { return k >= framePing && k <= frameUrge }

// frame acts on a frame that is no DATA. p is valid until it returns.
func (c *conn) frame(h header, p []byte) error {
	switch h.kind {
	case framePing:
		c.out.say(framePong, 0, h.tag, nil)
	case framePong:
		c.seen(h.tag)
	case frameOpen:
		return c.serveOpen(h, p)
	case frameGet:
		return c.serveGet(h, p)
	case frameFollow:
		return c.serveFollow(h, p)
	case frameLeave:
		return c.serveLeave(p)
	case frameOrder:
		return c.serveOrder(h, p)
	case frameCancel:
		c.serveCancel(h)
	case frameUrge:
		c.serveUrge(h)
	case framePush:
		return c.receive(h, p)
	case frameEnd, frameAbort:
		if h.push() {
			return c.received(h, p)
		}
		return c.reply(h, p)
	default:
		return c.reply(h, p)
	}
	return nil
}

// data takes a piece of a block to where it belongs.
func (c *conn) data(h header, in *bufio.Reader) error {
	c.stir()
	defer c.low.want(0)
	if h.push() {
		return c.receivePiece(h, in)
	}
	return c.replyPiece(h, in)
}

// reason is what those hear who wait when the connection ends.
func (c *conn) reason() error {
	return fmt.Errorf("connection to %s: %w: %w", c.vm, context.Cause(c.ctx), errdefs.ErrUnavailable)
}

// end tells all who are still waiting that there is nothing more to come.
func (c *conn) end() {
	err := c.reason()
	c.mu.Lock()
	for _, t := range []*time.Timer{c.watch, c.idle} {
		if t != nil {
			t.Stop()
		}
	}
	calls, pushed := c.calls, c.pushed
	c.calls, c.pushed = map[uint32]*call{}, map[uint32]*incoming{}
	c.mu.Unlock()
	for _, k := range calls {
		k.finish(err)
	}
	for _, i := range pushed {
		if i != nil {
			i.sink.End(err)
		}
	}
	c.r.unfollowed(c)
}
