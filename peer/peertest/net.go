// Package peertest has a network in memory whose hosts have links with a rate
// and a latency, and can be killed, frozen and cut off. Under testing/synctest a
// second of it takes no time.
package peertest

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

// Net is a network. Its zero value has no hosts.
type Net struct {
	// Latency is the time from any host to any other, one way.
	Latency time.Duration
	// Window is what may be on its way in one direction of a connection, in
	// bytes. The default is 256 KiB.
	Window int
	// Segment is what takes its turn on a link, in bytes. The default is 16 KiB.
	Segment int

	mu    sync.Mutex // guards hosts and all that is in them and in their connections
	hosts map[string]*Host
}

// Host is a machine on a Net.
type Host struct {
	net      *Net
	name     string
	up, down link
	accept   *listener
	conns    map[*Conn]struct{} // ends on this host
	dead     bool               // answers connections with a reset
	cut      bool               // nothing comes in or goes out
	frozen   chan struct{}      // nothing is read or written before it is closed; nil: the host runs
}

// link is one direction of a host's line. Who sends takes its turn.
type link struct {
	rate  int64     // bytes a second; 0: no limit
	from  time.Time // since when it is busy without a pause, or will be
	free  time.Time
	bytes int64
}

// take reserves the link for n bytes from when, and returns when they are
// through.
func (l *link) take(when time.Time, n int) time.Time {
	l.bytes += int64(n)
	if l.rate == 0 {
		return when
	}
	if l.free.After(when) {
		when = l.free
	} else if when.Sub(l.free) > time.Microsecond {
		l.from = when
	}
	l.free = when.Add(l.takes(n))
	return l.free
}

// takes is how long n bytes take.
func (l *link) takes(n int) time.Duration {
	if l.rate == 0 {
		return 0
	}
	return time.Duration(int64(n) * int64(time.Second) / l.rate)
}

// Host adds a host whose link has the given rate each way, in bytes a second; 0
// is no limit. Its name is the host part of its address.
func (n *Net) Host(name string, rate int64) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hosts == nil {
		n.hosts = map[string]*Host{}
	}
	h := &Host{net: n, name: name, up: link{rate: rate}, down: link{rate: rate}, conns: map[*Conn]struct{}{}}
	n.hosts[name] = h
	return h
}

// Address is where the host listens.
func (h *Host) Address() string { return h.name + ":7000" }

// SetRate changes the rate of the host's uplink.
func (h *Host) SetRate(up int64) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.up.rate, h.up.free = up, time.Time{}
}

// Bytes returns what the host has sent and received.
func (h *Host) Bytes() (sent, received int64) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	return h.up.bytes, h.down.bytes
}

// Busy reports whether something is on its way out of the host, and into it.
func (h *Host) Busy() (up, down bool) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	now := time.Now()
	return h.up.busy(now), h.down.busy(now)
}

func (l *link) busy(now time.Time) bool { return l.free.After(now) && !l.from.After(now) }

// Kill ends all connections of the host, and refuses new ones until Revive.
func (h *Host) Kill() {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.dead = true
	for c := range h.conns {
		c.fail(syscall.ECONNRESET)
		if !c.cut() { // else nobody hears of it
			c.peer.fail(syscall.ECONNRESET)
		}
	}
}

// Revive makes the host accept connections again.
func (h *Host) Revive() {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.dead = false
}

// Cut makes bytes from and to the host vanish, or, for false, arrive again: what
// vanished is sent once more, as a kernel does, and whoever has not given up his
// connections has them still.
func (h *Host) Cut(cut bool) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.cut = cut
	for c := range h.conns {
		c.again()
		c.peer.again()
	}
}

// Freeze stops the host from reading, writing, connecting and closing, or, for
// false, lets it go on: to others it is as a process that is stopped. Connections
// to it are made, as a kernel does.
func (h *Host) Freeze(frozen bool) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	switch {
	case frozen == (h.frozen != nil):
		return
	case frozen:
		h.frozen = make(chan struct{})
	default:
		close(h.frozen)
		h.frozen = nil
	}
	for c := range h.conns {
		if c.closed {
			c.bye()
		}
		c.change()
		c.peer.change()
	}
}

// Listen makes the host accept connections.
func (h *Host) Listen() net.Listener {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.accept = &listener{host: h, conns: make(chan *Conn, 64), closed: make(chan struct{})}
	return h.accept
}

// Dial connects to an address.
func (h *Host) Dial(ctx context.Context, address string) (net.Conn, error) {
	name, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	h.net.mu.Lock()
	for h.frozen != nil {
		frozen := h.frozen
		h.net.mu.Unlock()
		select {
		case <-frozen:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		h.net.mu.Lock()
	}
	to := h.net.hosts[name]
	gone := to == nil || to.cut || h.cut
	refused := !gone && (to.dead || h.dead || to.accept == nil)
	h.net.mu.Unlock()
	if gone {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	t := time.NewTimer(2 * h.net.Latency)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if refused {
		return nil, fmt.Errorf("dial %s: %w", address, syscall.ECONNREFUSED)
	}
	a, b := newPair(h, to)
	select {
	case to.accept.conns <- b:
		return a, nil
	case <-to.accept.closed:
		return nil, fmt.Errorf("dial %s: %w", address, syscall.ECONNREFUSED)
	}
}

type listener struct {
	host   *Host
	conns  chan *Conn
	closed chan struct{}
	once   sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return addr(l.host.Address()) }

type addr string

func (a addr) Network() string { return "mem" }
func (a addr) String() string  { return string(a) }
