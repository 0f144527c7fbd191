package registrytest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestNet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n Net
		lis := n.Listen("a.test:80")
		if _, err := n.DialContext(t.Context(), "tcp", "b.test:80"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("unknown host: %v", err)
		}
		n.Blackhole("c.test:80")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := n.DialContext(ctx, "tcp", "c.test:80"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("black hole: %v", err)
		}
		accepted := make(chan net.Conn, 1)
		go func() {
			c, err := lis.Accept()
			if err != nil {
				t.Error(err)
			}
			accepted <- c
		}()
		here, err := n.DialContext(t.Context(), "tcp", "a.test:80")
		if err != nil {
			t.Fatal(err)
		}
		there := <-accepted
		defer there.Close()

		// Both ends may write at once, up to the window.
		for _, c := range []net.Conn{here, there} {
			if k, err := c.Write(make([]byte, window)); k != window || err != nil {
				t.Errorf("write: %d, %v", k, err)
			}
		}
		_ = here.SetWriteDeadline(time.Now().Add(time.Second))
		begin := time.Now()
		if k, err := here.Write([]byte("more")); k != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("full window: %d, %v after %v", k, err, time.Since(begin))
		}
		_ = here.SetDeadline(time.Time{})
		if k, err := io.ReadFull(here, make([]byte, window)); k != window || err != nil {
			t.Errorf("read: %d, %v", k, err)
		}
		_ = here.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := here.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("empty window: %v", err)
		}
		// What was written before the end closed still arrives.
		_ = here.Close()
		p, err := io.ReadAll(there)
		if err != nil || !bytes.Equal(p, make([]byte, window)) {
			t.Errorf("after close: %d bytes, %v", len(p), err)
		}
		if _, err := there.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("write to a closed end: %v", err)
		}
		if n.Dials("a.test:80") != 1 || n.Dials("b.test:80") != 1 {
			t.Error("dials were not counted")
		}
		_ = lis.Close()
		if _, err := n.DialContext(t.Context(), "tcp", "a.test:80"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("closed host: %v", err)
		}
	})
}
