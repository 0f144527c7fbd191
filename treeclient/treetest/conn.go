package treetest

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// conn is one end of a connection. Writes never block.
type conn struct {
	host          *host
	local, remote net.Addr
	in, out       *half
	peer          *conn
}

func pipe(h *host, near, far net.Addr) (*conn, *conn) {
	a, b := newHalf(h), newHalf(h)
	x := &conn{host: h, local: near, remote: far, in: a, out: b}
	y := &conn{host: h, local: far, remote: near, in: b, out: a, peer: x}
	x.peer = y
	return x, y
}

func (c *conn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *conn) Write(p []byte) (int, error) { return c.out.write(p) }

// Close ends both directions; the other end reads what is on its way first.
func (c *conn) Close() error {
	c.in.end(net.ErrClosed, true)
	c.out.end(io.EOF, false)
	c.host.network.mu.Lock()
	defer c.host.network.mu.Unlock()
	delete(c.host.conns, c)
	return nil
}

func (c *conn) reset() {
	c.in.end(syscall.ECONNRESET, true)
	c.out.end(syscall.ECONNRESET, true)
	c.host.network.mu.Lock()
	defer c.host.network.mu.Unlock()
	delete(c.host.conns, c)
}

func (c *conn) LocalAddr() net.Addr                { return c.local }
func (c *conn) RemoteAddr() net.Addr               { return c.remote }
func (c *conn) SetDeadline(t time.Time) error      { return c.SetReadDeadline(t) }
func (c *conn) SetWriteDeadline(t time.Time) error { return nil }

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.mu.Lock()
	c.in.deadline = t
	c.in.mu.Unlock()
	c.in.wake()
	return nil
}

// half is one direction of a connection.
type half struct {
	host *host
	news chan struct{} // has room for one

	mu       sync.Mutex // Network.mu is not taken under it
	chunks   []chunk
	err      error // after the chunks
	deadline time.Time
}

type chunk struct {
	data []byte
	due  time.Time
}

func newHalf(h *host) *half { return &half{host: h, news: make(chan struct{}, 1)} }

func (h *half) wake() {
	select {
	case h.news <- struct{}{}:
	default:
	}
}

func (h *half) write(p []byte) (int, error) {
	h.host.network.mu.Lock()
	delay := h.host.delay
	h.host.network.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return 0, syscall.EPIPE
	}
	h.chunks = append(h.chunks, chunk{append([]byte(nil), p...), time.Now().Add(delay)})
	h.wake()
	return len(p), nil
}

// end ends the direction, at once or after what is on its way.
func (h *half) end(err error, now bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now {
		h.chunks, h.err = nil, err
	} else if h.err == nil {
		h.err = err
	}
	h.wake()
}

func (h *half) read(p []byte) (int, error) {
	for {
		n, wait, err := h.try(p)
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		var timer <-chan time.Time
		if wait > 0 {
			t := time.NewTimer(wait)
			defer t.Stop()
			timer = t.C
		}
		select {
		case <-h.news:
		case <-timer:
		}
	}
}

// try reads what is there, or says after which time to look again, 0 for when
// there is news.
func (h *half) try(p []byte) (n int, wait time.Duration, err error) {
	h.host.network.mu.Lock()
	hangs := h.host.hangs
	h.host.network.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if !h.deadline.IsZero() {
		if wait = h.deadline.Sub(now); wait <= 0 {
			return 0, 0, os.ErrDeadlineExceeded
		}
	}
	if hangs && !errors.Is(h.err, net.ErrClosed) {
		return 0, wait, nil
	}
	if len(h.chunks) == 0 {
		return 0, wait, h.err
	}
	c := &h.chunks[0]
	if due := c.due.Sub(now); due > 0 {
		if wait == 0 || due < wait {
			wait = due
		}
		return 0, wait, nil
	}
	n = copy(p, c.data)
	if c.data = c.data[n:]; len(c.data) == 0 {
		h.chunks = h.chunks[1:]
	}
	return n, 0, nil
}
