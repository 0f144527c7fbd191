package registrytest

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// window is how many bytes one direction of a connection holds. With none, as
// in net.Pipe, two ends that write at the same time wait for ever: a TLS client
// that refuses a certificate does.
const window = 64 << 10

// pipe makes a connection in memory.
func pipe(server netAddr) (client, served net.Conn) {
	up, down := newHalf(), newHalf()
	return &conn{r: down, w: up, remote: server, read: newDeadline(), write: newDeadline()},
		&conn{r: up, w: down, local: server, read: newDeadline(), write: newDeadline()}
}

// half is one direction.
type half struct {
	mu     sync.Mutex // guards all below
	buf    []byte
	eof    bool          // the writer has closed
	broken bool          // the reader has closed
	step   chan struct{} // closed and replaced when any of this changes
}

func newHalf() *half { return &half{step: make(chan struct{})} }

func (h *half) change(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	close(h.step)
	h.step = make(chan struct{})
}

// try calls f until it is done, at each change.
func (h *half) try(d *deadline, f func() (n int, done bool, err error)) (int, error) {
	for {
		late := d.passed()
		select {
		case <-late:
			return 0, os.ErrDeadlineExceeded
		default:
		}
		h.mu.Lock()
		n, done, err := f()
		if done && err == nil && n > 0 {
			close(h.step)
			h.step = make(chan struct{})
		}
		step := h.step
		h.mu.Unlock()
		if done {
			return n, err
		}
		select {
		case <-step:
		case <-late:
		}
	}
}

// conn is one end.
type conn struct {
	r, w          *half
	local, remote netAddr
	read, write   *deadline
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	return c.r.try(c.read, func() (int, bool, error) {
		switch h := c.r; {
		case h.broken:
			return 0, true, io.ErrClosedPipe
		case len(h.buf) > 0 || len(p) == 0:
			n := copy(p, h.buf)
			h.buf = h.buf[n:]
			return n, true, nil
		case h.eof:
			return 0, true, io.EOF
		}
		return 0, false, nil
	})
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	for wrote := 0; ; {
		n, err := c.w.try(c.write, func() (int, bool, error) {
			switch h := c.w; {
			case h.broken || h.eof:
				return 0, true, io.ErrClosedPipe
			case wrote == len(p):
				return 0, true, nil
			case len(h.buf) < window:
				n := min(window-len(h.buf), len(p)-wrote)
				h.buf = append(h.buf, p[wrote:wrote+n]...)
				return n, true, nil
			}
			return 0, false, nil
		})
		if wrote += n; err != nil || wrote == len(p) {
			return wrote, err
		}
	}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.w.change(func() { c.w.eof = true })
	c.r.change(func() { c.r.broken = true })
	c.read.set(time.Time{})
	c.write.set(time.Time{})
	return nil
}

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	c.read.set(t)
	c.write.set(t)
	return nil
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error { c.read.set(t); return nil }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error { c.write.set(t); return nil }

// deadline is a time that may be moved.
type deadline struct {
	mu    sync.Mutex // guards all below
	timer *time.Timer
	ch    chan struct{} // closed when it has passed
}

func newDeadline() *deadline { return &deadline{ch: make(chan struct{})} }

func (d *deadline) passed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ch
}

// set moves the deadline. Whoever waits for the old one goes on waiting for it,
// but for one that comes sooner too, as net.Pipe has it.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.ch // the timer has fired: let it finish
	}
	d.timer = nil
	closed := false
	select {
	case <-d.ch:
		closed = true
	default:
	}
	switch left := time.Until(t); {
	case t.IsZero():
		if closed {
			d.ch = make(chan struct{})
		}
	case left > 0:
		if closed {
			d.ch = make(chan struct{})
		}
		ch := d.ch
		d.timer = time.AfterFunc(left, func() { close(ch) })
	case !closed:
		close(d.ch)
	}
}
