package coordinator

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

func TestLimitHosts(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := LimitHosts(inner, 2)
	t.Cleanup(func() { l.Close() })
	taken := make(chan net.Conn, 8)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Write([]byte("+"))
			taken <- c
		}
	}()
	from := func(ip string) (net.Conn, bool) {
		t.Helper()
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}).Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(10 * time.Second))
		_, err = io.ReadFull(c, make([]byte, 1))
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			t.Fatal(err)
		}
		return c, err == nil
	}
	for range 2 {
		if _, ok := from("127.0.0.2"); !ok {
			t.Fatal("refused below the bound")
		}
	}
	if _, ok := from("127.0.0.2"); ok {
		t.Error("a third connection of the host was taken")
	}
	if _, ok := from("127.0.0.3"); !ok {
		t.Error("another host was refused")
	}
	first := <-taken
	first.Close()
	first.Close() // again is nothing
	if _, ok := from("127.0.0.2"); !ok {
		t.Error("no room after one has ended")
	}
	if _, ok := from("127.0.0.2"); ok {
		t.Error("two made room where one has ended")
	}
}
