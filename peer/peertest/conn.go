package peertest

import (
	"cmp"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// resend is after what time at most something that was lost is sent again.
const resend = 200 * time.Millisecond

// Defaults of Net.
const (
	window  = 256 << 10
	segment = 16 << 10
)

// Conn is one end of a connection. All is guarded by Net.mu.
type Conn struct {
	host, to *Host
	peer     *Conn

	in      []piece // on the way to this end, in order
	held    int     // bytes of in
	err     error
	eof     bool // the other end has closed
	closed  bool
	lost    [][]byte  // what vanished on its way from here, to be sent again
	unsaid  bool      // that this end is closed vanished too
	sent    time.Time // when the last byte has left
	unsent  int       // bytes written since the link was free for this end
	read    time.Time // deadline
	write   time.Time
	changed chan struct{} // closed and replaced with each change
}

type piece struct {
	p  []byte
	at time.Time // when it is here
}

func newPair(from, to *Host) (a, b *Conn) {
	a = &Conn{host: from, to: to, changed: make(chan struct{})}
	b = &Conn{host: to, to: from, peer: a, changed: make(chan struct{})}
	a.peer = b
	from.net.mu.Lock()
	defer from.net.mu.Unlock()
	from.conns[a], to.conns[b] = struct{}{}, struct{}{}
	return a, b
}

// change wakes whoever waits at this end.
func (c *Conn) change() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *Conn) fail(err error) {
	if c.err == nil {
		c.err = err
	}
	c.change()
}

// wait waits until something changes at this end, or until then.
func (c *Conn) wait(then time.Time) {
	changed := c.changed
	c.host.net.mu.Unlock()
	defer c.host.net.mu.Lock()
	if then.IsZero() {
		<-changed
		return
	}
	t := time.NewTimer(time.Until(then))
	defer t.Stop()
	select {
	case <-changed:
	case <-t.C:
	}
}

func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Read is that of net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	c.host.net.mu.Lock()
	defer c.host.net.mu.Unlock()
	for {
		now := time.Now()
		var next time.Time
		switch {
		case c.closed:
			return 0, net.ErrClosed
		case c.err != nil:
			return 0, c.err
		case !c.read.IsZero() && !now.Before(c.read):
			return 0, os.ErrDeadlineExceeded
		case c.host.frozen != nil:
		case len(c.in) > 0 && !now.Before(c.in[0].at):
			n := copy(p, c.in[0].p)
			if c.in[0].p = c.in[0].p[n:]; len(c.in[0].p) == 0 {
				c.in = c.in[1:]
			}
			c.held -= n
			c.peer.change()
			return n, nil
		case len(c.in) > 0:
			next = c.in[0].at
		case c.eof:
			return 0, io.EOF
		}
		c.wait(sooner(next, c.read))
	}
}

// Write is that of net.Conn. Up to a segment may wait for the link when it
// returns.
func (c *Conn) Write(p []byte) (n int, err error) {
	c.host.net.mu.Lock()
	defer c.host.net.mu.Unlock()
	window, segment := cmp.Or(c.host.net.Window, window), cmp.Or(c.host.net.Segment, segment)
	for len(p) > 0 {
		now := time.Now()
		switch {
		case c.closed:
			return n, net.ErrClosed
		case c.err != nil:
			return n, c.err
		case !c.write.IsZero() && !now.Before(c.write):
			return n, os.ErrDeadlineExceeded
		case c.eof:
			return n, syscall.EPIPE
		case c.host.frozen != nil, c.peer.held >= window:
			c.wait(c.write)
			continue
		}
		m := min(len(p), segment, window-c.peer.held)
		if !now.Before(c.sent) {
			c.unsent = 0
		}
		c.sent = c.send(now, p[:m])
		c.unsent += m
		n, p = n+m, p[m:]
		for c.unsent >= segment && time.Now().Before(c.sent) && c.err == nil && !c.closed {
			c.wait(c.sent)
		}
	}
	return n, nil
}

// send puts a segment on the way and returns when it has left.
func (c *Conn) send(now time.Time, p []byte) time.Time {
	sent := c.host.up.take(now, len(p))
	c.peer.held += len(p)
	if c.cut() || len(c.lost) > 0 {
		c.lost = append(c.lost, append([]byte(nil), p...))
		return sent
	}
	first := sent.Add(c.host.net.Latency - c.host.up.takes(len(p)))
	at := c.to.down.take(first, len(p)) // while the rest goes out
	if last := sent.Add(c.host.net.Latency); at.Before(last) {
		at = last
	}
	c.peer.in = append(c.peer.in, piece{append([]byte(nil), p...), at})
	c.peer.change()
	return sent
}

func (c *Conn) cut() bool { return c.host.cut || c.to.cut }

// again sends what vanished once more, if it can arrive now.
func (c *Conn) again() {
	if c.cut() {
		return
	}
	then := time.Now().Add(resend)
	for _, p := range c.lost {
		c.peer.in = append(c.peer.in, piece{p, c.to.down.take(c.host.up.take(then, len(p)), len(p))})
	}
	c.lost = nil
	if c.unsaid {
		c.bye()
	}
	c.peer.change()
}

// Close is that of net.Conn.
func (c *Conn) Close() error {
	c.host.net.mu.Lock()
	defer c.host.net.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	c.change()
	if c.host.frozen == nil {
		c.bye()
	}
	return nil
}

// bye lets the other end see that this one is closed.
func (c *Conn) bye() {
	if c.unsaid = c.cut(); c.unsaid {
		return
	}
	delete(c.host.conns, c)
	c.peer.eof = true
	c.peer.change()
}

// LocalAddr is that of net.Conn.
func (c *Conn) LocalAddr() net.Addr { return addr(c.host.Address()) }

// RemoteAddr is that of net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return addr(c.to.Address()) }

// SetDeadline is that of net.Conn.
func (c *Conn) SetDeadline(t time.Time) error { return c.set(t, t, true, true) }

// SetReadDeadline is that of net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.set(t, t, true, false) }

// SetWriteDeadline is that of net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.set(t, t, false, true) }

func (c *Conn) set(r, w time.Time, read, write bool) error {
	c.host.net.mu.Lock()
	defer c.host.net.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	if read {
		c.read = r
	}
	if write {
		c.write = w
	}
	c.change()
	return nil
}
