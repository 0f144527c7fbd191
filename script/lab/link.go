package lab

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// Received returns the bytes that the host was sent, as the bridge's port
// counts them.
func (n *Net) Received() (int64, error) {
	s, err := n.counters()
	if err != nil {
		return 0, err
	}
	return s.Tx.Bytes, nil
}

// Dial connects to an IP address and port from within the namespace.
func (n *Net) Dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = n.within(func() (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, network, address) // an IP address is dialed by the calling goroutine itself
		return err
	})
	return conn, err
}

// Listen listens on an IP address and port within the namespace.
func (n *Net) Listen(ctx context.Context, network, address string) (l net.Listener, err error) {
	err = n.within(func() (err error) {
		l, err = new(net.ListenConfig).Listen(ctx, network, address)
		return err
	})
	return l, err
}

// within calls f on a thread of the namespace. Sockets that it opens stay there.
func (n *Net) within(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread dies with the goroutine
		if err := unix.Setns(int(n.ns.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("enter network namespace: %w", err)
			return
		}
		done <- f()
	}()
	return <-done
}

// Close removes the link and, once its last process has ended, the namespace.
// Idempotent; the lab's Close does it too.
func (n *Net) Close() error {
	l := n.lab
	if !slices.Contains(l.nets, n) {
		return nil
	}
	l.nets = slices.DeleteFunc(l.nets, func(o *Net) bool { return o == n })
	if n.hub != nil {
		if err := n.hub.net.run("ip", "link", "del", "dev", n.port); err != nil {
			return err
		}
	}
	return n.ns.Close()
}

// Close removes the bridge. Idempotent; the lab's Close does it too.
func (h *Hub) Close() error { return h.net.Close() }
