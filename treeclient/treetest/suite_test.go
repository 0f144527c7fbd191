package treetest

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCoordinator(t *testing.T) {
	Test(t, func(t *testing.T) *grpc.ClientConn {
		t.Helper()
		c, err := NewCoordinator()
		if err != nil {
			t.Fatal(err)
		}
		var n Network
		stop, err := n.Serve("c:1", func(s grpc.ServiceRegistrar) { c.Register(s) })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
		conn, err := n.Dial("c:1")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	})
}

// pair connects to a host of n and returns both ends.
func pair(t *testing.T, n *Network) (near, far net.Conn) {
	t.Helper()
	l, err := n.Listen("h:1")
	if err != nil {
		t.Fatal(err)
	}
	near, err = n.DialConn(t.Context(), "10.0.0.1:9", "h:1")
	if err != nil {
		t.Fatal(err)
	}
	far, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if far.RemoteAddr().String() != "10.0.0.1:9" || near.RemoteAddr().String() != "h:1" {
		t.Errorf("addresses %v and %v", far.RemoteAddr(), near.RemoteAddr())
	}
	t.Cleanup(func() { near.Close(); far.Close(); l.Close() })
	return near, far
}

func TestNetwork(t *testing.T) {
	read := func(t *testing.T, c net.Conn) string {
		t.Helper()
		p := make([]byte, 100)
		n, err := c.Read(p)
		if err != nil {
			return err.Error()
		}
		return string(p[:n])
	}
	for name, test := range map[string]func(*testing.T, *Network){
		"refused": func(t *testing.T, n *Network) {
			if _, err := n.DialConn(t.Context(), "x", "h:1"); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Error(err)
			}
		},
		"delay both ways, in order": func(t *testing.T, n *Network) {
			near, far := pair(t, n)
			n.Delay("h:1", time.Second)
			began := time.Now()
			near.Write([]byte("ask"))
			if got := read(t, far); got != "ask" || time.Since(began) != time.Second {
				t.Errorf("%q after %v", got, time.Since(began))
			}
			far.Write([]byte("answer"))
			if got := read(t, near); got != "answer" || time.Since(began) != 2*time.Second {
				t.Errorf("%q after %v", got, time.Since(began))
			}
		},
		"close lets the other end read on": func(t *testing.T, n *Network) {
			near, far := pair(t, n)
			near.Write([]byte("last"))
			near.Close()
			if got := read(t, far); got != "last" {
				t.Errorf("%q", got)
			}
			if _, err := far.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			if _, err := far.Write([]byte("x")); err == nil {
				t.Error("wrote to a closed end")
			}
		},
		"cut": func(t *testing.T, n *Network) {
			near, far := pair(t, n)
			if n.Conns("h:1") != 1 {
				t.Errorf("%d connections", n.Conns("h:1"))
			}
			near.Write([]byte("lost"))
			n.Cut("h:1")
			if _, err := far.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Error(err)
			}
			if n.Conns("h:1") != 0 {
				t.Errorf("%d connections", n.Conns("h:1"))
			}
		},
		"hang": func(t *testing.T, n *Network) {
			near, far := pair(t, n)
			n.Hang("h:1", true)
			near.Write([]byte("late"))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := n.DialConn(ctx, "x", "h:1"); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			far.SetReadDeadline(time.Now().Add(time.Second))
			if _, err := far.Read(make([]byte, 1)); !isTimeout(err) {
				t.Error(err)
			}
			far.SetReadDeadline(time.Time{})
			n.Hang("h:1", false)
			if got := read(t, far); got != "late" {
				t.Errorf("%q", got)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, &Network{}) })
		})
	}
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}
