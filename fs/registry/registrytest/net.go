package registrytest

import (
	"context"
	"net"
	"sync"
	"syscall"
)

// Net is a network in memory with hosts of any name. It works in a bubble of
// testing/synctest. The zero value
// is ready; it is safe for concurrent use.
type Net struct {
	mu    sync.Mutex // guards hosts, dials
	hosts map[string]*netListener
	dials map[string]int
}

type netAddr string

// Network implements net.Addr.
func (netAddr) Network() string { return "pipe" }

// String implements net.Addr.
func (a netAddr) String() string { return string(a) }

type netListener struct {
	addr  netAddr
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
	dead  bool // connects never end
}

// Listen makes a host:port that can be dialled.
func (n *Net) Listen(addr string) net.Listener { return n.add(addr, false) }

// Blackhole makes a host:port whose connects never end.
func (n *Net) Blackhole(addr string) { n.add(addr, true) }

func (n *Net) add(addr string, dead bool) *netListener {
	l := &netListener{addr: netAddr(addr), conns: make(chan net.Conn), done: make(chan struct{}), dead: dead}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hosts == nil {
		n.hosts, n.dials = map[string]*netListener{}, map[string]int{}
	}
	n.hosts[addr] = l
	return l
}

// DialContext connects to a host of the network; any other refuses.
func (n *Net) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	n.mu.Lock()
	l := n.hosts[addr]
	if n.dials == nil {
		n.dials = map[string]int{}
	}
	n.dials[addr]++
	n.mu.Unlock()
	refused := &net.OpError{Op: "dial", Net: network, Addr: netAddr(addr), Err: syscall.ECONNREFUSED}
	if l == nil {
		return nil, refused
	}
	if l.dead {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	here, there := pipe(l.addr)
	select {
	case l.conns <- there:
		return here, nil
	case <-l.done:
		return nil, refused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Dials returns how often a host:port was dialled.
func (n *Net) Dials(addr string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials[addr]
}

// Accept implements net.Listener.
func (l *netListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *netListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr implements net.Listener.
func (l *netListener) Addr() net.Addr { return l.addr }
