package coordinator

import (
	"net"
	"sync"

	"github.com/containerd/log"
	"golang.org/x/time/rate"
)

// DefaultHostConnections is what one host may have: its VMs need one each.
const DefaultHostConnections = 256

// LimitHosts bounds the connections that l takes from each address: what is beyond
// is closed at once, so that whoever opens many takes nothing from others.
func LimitHosts(l net.Listener, each int) net.Listener {
	return &hosts{Listener: l, each: each, logged: rate.NewLimiter(1, 10), conns: map[string]int{}}
}

type hosts struct {
	net.Listener
	each   int
	logged *rate.Limiter

	mu    sync.Mutex // guards conns
	conns map[string]int
}

// Accept returns the next connection of a host that has not too many.
func (h *hosts) Accept() (net.Conn, error) {
	for {
		c, err := h.Listener.Accept()
		if err != nil {
			return nil, err
		}
		host, _, err := net.SplitHostPort(c.RemoteAddr().String())
		if err != nil {
			host = c.RemoteAddr().String()
		}
		if h.enter(host) {
			return &hostConn{Conn: c, leave: sync.OnceFunc(func() { h.leave(host) })}, nil
		}
		c.Close()
		if h.logged.Allow() {
			log.L.WithField("remote", host).WithField("connections", h.each).Warn("a host has too many connections, no further one is taken")
		}
	}
}

func (h *hosts) enter(host string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conns[host] >= h.each {
		return false
	}
	h.conns[host]++
	return true
}

func (h *hosts) leave(host string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conns[host]--; h.conns[host] == 0 {
		delete(h.conns, host)
	}
}

type hostConn struct {
	net.Conn
	leave func()
}

// Close makes room for another connection of the host.
func (c *hostConn) Close() error {
	c.leave()
	return c.Conn.Close()
}
