package peer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/faasnet/faasnet/fs/block/blocktest"
)

// stored returns a file with n bytes.
func stored(t *testing.T, n int) (*os.File, []byte) {
	t.Helper()
	p := blocktest.Random(7, n)
	path := filepath.Join(t.TempDir(), "block")
	if err := os.WriteFile(path, p, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, p
}

// incomingFrame reads one frame.
func incomingFrame(t *testing.T, r io.Reader) (header, []byte) {
	t.Helper()
	p := make([]byte, headerSize)
	if _, err := io.ReadFull(r, p); err != nil {
		t.Fatal(err)
	}
	h, err := parseHeader(p)
	if err != nil {
		t.Fatal(err)
	}
	body := make([]byte, h.size)
	if _, err := io.ReadFull(r, body); err != nil {
		t.Fatal(err)
	}
	return h, body
}

// pair is the two ends of a connection, over the kernel or not.
func pair(t *testing.T, kernel bool) (net.Conn, net.Conn) {
	t.Helper()
	a, b := net.Pipe()
	if kernel {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if a, err = net.Dial("tcp", l.Addr().String()); err != nil {
			t.Fatal(err)
		}
		if b, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// A stored block goes out frame by frame: what is more urgent goes between, and
// who gives it up gets the file back after the frame that is on its way.
func TestFileIsSentInFrames(t *testing.T) {
	for _, kernel := range []bool{false, true} {
		const size = 5*pieceSize + 17
		f, want := stored(t, size)
		a, b := pair(t, kernel)
		w := newWriter(a, newUplink(0))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.run(ctx) }()
		data := header{kind: frameData, tag: 1}
		sent := make(chan error, 1)
		go func() { sent <- w.send(ctx, answers, &packet{header: data, stream: 1, file: f, left: size}) }()
		h, got := incomingFrame(t, b)
		w.say(framePong, 0, 9, nil)
		if h.tag != 1 || h.size != pieceSize {
			t.Errorf("first %+v", h)
		}
		between := false
		for len(got) < size {
			h, p := incomingFrame(t, b)
			if h.kind == framePong {
				between = true
				continue
			}
			got = append(got, p...)
		}
		if !bytes.Equal(got, want) {
			t.Error("other bytes")
		}
		if !between && !kernel { // the kernel may have taken all before
			t.Error("what is urgent waited for the whole file")
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
		gctx, giveUp := context.WithCancel(ctx)
		p := &packet{header: data, stream: 2, file: f, left: size}
		go func() { sent <- w.send(gctx, answers, p) }()
		incomingFrame(t, b)
		giveUp()
		w.say(framePong, 0, 10, nil)
		for h := (header{}); h.kind != framePong || h.tag != 10; {
			h, _ = incomingFrame(t, b)
		}
		go io.Copy(io.Discard, b) // a frame may have been on its way with it
		if err := <-sent; !kernel && !errors.Is(err, context.Canceled) {
			t.Errorf("given up: %v", err)
		}
		w.mu.Lock()
		if n := len(w.queue[answers]); n != 0 {
			t.Errorf("%d packets are left", n)
		}
		w.mu.Unlock()
		stop()
		<-done
	}
}

func TestPaceOfFrames(t *testing.T) {
	w := newWriter(nil, newUplink(0))
	for _, c := range []struct {
		rate int // bytes a second
		want int
	}{{1 << 20, pieceSize}, {8 << 20, pieceSize}, {40 << 20, 2 * pieceSize}, {125 << 20, maxPayload}, {1 << 40, maxPayload}} {
		for range 8 {
			w.pace.learn(batch, time.Duration(batch)*time.Second/time.Duration(c.rate))
		}
		if got := w.frame(); got != c.want {
			t.Errorf("%d bytes a second: frames of %d, want %d", c.rate, got, c.want)
		}
	}
}
