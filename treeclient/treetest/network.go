// Package treetest has what tests of and around treeclient need: a network in
// memory, a coordinator that does what a test says, and a suite that every
// coordinator passes. All of it works in bubbles of testing/synctest.
package treetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Network is a network in memory. The zero value has no hosts.
type Network struct {
	mu    sync.Mutex
	hosts map[string]*host
}

// host is an address of a Network.
type host struct {
	network *Network
	address string

	// Guarded by Network.mu.
	listener *listener // nil: connections are refused
	hangs    bool
	delay    time.Duration
	conns    map[*conn]bool // ends of connections to it
}

func (n *Network) host(address string) *host {
	h := n.hosts[address]
	if h == nil {
		h = &host{network: n, address: address, conns: map[*conn]bool{}}
		if n.hosts == nil {
			n.hosts = map[string]*host{}
		}
		n.hosts[address] = h
	}
	return h
}

// Listen listens on an address. Closing the listener refuses connections
// again; those that exist stay.
func (n *Network) Listen(address string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.host(address)
	if h.listener != nil {
		return nil, &net.OpError{Op: "listen", Net: "memory", Addr: addr(address), Err: syscall.EADDRINUSE}
	}
	h.listener = &listener{host: h, incoming: make(chan net.Conn, 1024), closed: make(chan struct{})}
	return h.listener, nil
}

// Serve runs a gRPC server on an address until stop is called, which is as
// sudden as a kill: all connections are reset.
func (n *Network) Serve(address string, register func(grpc.ServiceRegistrar), opts ...grpc.ServerOption) (stop func(), err error) {
	l, err := n.Listen(address)
	if err != nil {
		return nil, err
	}
	s := grpc.NewServer(opts...)
	register(s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // ends with stop
	}()
	return func() {
		l.Close()
		n.Cut(address)
		s.Stop()
		<-done
	}, nil
}

// Dial makes a gRPC connection that is seen to come from 192.0.2.1. It has
// the type of treeclient.Options.Dial.
func (n *Network) Dial(address string) (*grpc.ClientConn, error) {
	return n.DialFrom("192.0.2.1:1024")(address)
}

// DialFrom returns a Dial that is seen to come from an address.
func (n *Network) DialFrom(from string) func(address string) (*grpc.ClientConn, error) {
	return func(address string) (*grpc.ClientConn, error) {
		return grpc.NewClient("passthrough:///"+address,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
				return n.DialConn(ctx, from, address)
			}))
	}
}

// DialConn connects to an address. A host that hangs makes it wait for ctx.
func (n *Network) DialConn(ctx context.Context, from, address string) (net.Conn, error) {
	n.mu.Lock()
	h := n.host(address)
	l, hangs := h.listener, h.hangs
	if l == nil && !hangs {
		n.mu.Unlock()
		return nil, fmt.Errorf("dial %s: %w", address, syscall.ECONNREFUSED)
	}
	if hangs {
		n.mu.Unlock()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	near, far := pipe(h, addr(from), addr(address))
	h.conns[near], h.conns[far] = true, true
	n.mu.Unlock()
	select {
	case l.incoming <- far:
		return near, nil
	case <-l.closed:
		return nil, errors.Join(fmt.Errorf("dial %s: %w", address, syscall.ECONNREFUSED), near.Close(), far.Close())
	}
}

// Cut resets all connections to an address, at the same moment.
func (n *Network) Cut(address string) {
	var hung bool
	conns := n.all(address, func(h *host) { hung, h.hangs = h.hangs, true })
	for _, c := range conns {
		c.reset()
	}
	n.all(address, func(h *host) { h.hangs = hung })
	for _, c := range conns {
		c.in.wake()
	}
}

// Hang makes an address vanish without a word: connections to it stay, but
// nothing travels, and new ones are neither made nor refused. With false
// everything arrives.
func (n *Network) Hang(address string, hangs bool) {
	for _, c := range n.all(address, func(h *host) { h.hangs = hangs }) {
		c.in.wake()
	}
}

// Delay makes everything take so long to an address, and as long from it.
func (n *Network) Delay(address string, d time.Duration) {
	n.all(address, func(h *host) { h.delay = d })
}

// Conns returns how many connections to an address are open.
func (n *Network) Conns(address string) int { return len(n.all(address, func(*host) {})) / 2 }

func (n *Network) all(address string, do func(*host)) (conns []*conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.host(address)
	do(h)
	for c := range h.conns {
		conns = append(conns, c)
	}
	return conns
}

type listener struct {
	host     *host
	incoming chan net.Conn
	once     sync.Once
	closed   chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.incoming:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		l.host.network.mu.Lock()
		defer l.host.network.mu.Unlock()
		l.host.listener = nil
		close(l.closed)
	})
	return nil
}

func (l *listener) Addr() net.Addr { return addr(l.host.address) }

type addr string

func (addr) Network() string  { return "memory" }
func (a addr) String() string { return string(a) }
