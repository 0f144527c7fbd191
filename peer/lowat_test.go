package peer

import (
	"bufio"
	"bytes"
	"io"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/fs/block/blocktest"
)

// counted counts the reads that bring something. No time passes for what it reads
// with: the pace is what a test says, however busy the machine is.
type counted struct {
	io.Reader
	low   *lowat
	calls int
}

func (c *counted) Read(p []byte) (int, error) {
	c.low.read()
	n, err := c.Reader.Read(p)
	if n > 0 {
		c.calls++
		c.low.got(n, time.Time{})
	}
	return n, err
}

// A reader that waits for a piece sleeps until it is there, is woken by the end of
// one that is smaller than it hoped, and by a frame that is nothing but a header.
func TestReaderSleepsUntilThereIsEnough(t *testing.T) {
	a, b := pair(t, true)
	low := newLowat(b)
	in := &counted{Reader: b, low: &low}
	buffered := bufio.NewReaderSize(in, 4<<10)
	const size = 48 << 10
	want := blocktest.Random(3, size)
	dribble := func(p []byte) {
		for len(p) > 0 {
			n := min(len(p), 1<<10)
			if _, err := a.Write(p[:n]); err != nil {
				t.Error(err)
			}
			p = p[n:]
			time.Sleep(100 * time.Microsecond)
		}
	}
	low.pace = 1 << 20
	for i := range 4 {
		go dribble(want)
		if i > 0 { // a part of it is there already
			time.Sleep(time.Duration(i) * time.Millisecond)
		}
		low.want(size)
		got := make([]byte, size)
		if _, err := io.ReadFull(buffered, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("other bytes, %v", err)
		}
		low.want(0)
		go dribble(want[:headerSize])
		if _, err := io.ReadFull(buffered, got[:headerSize]); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d reads for 4 times %d packets", in.calls, size>>10)
	if in.calls > 4*size>>10/2 { // 4 KiB at first, then the rest, in few parts: not one for each packet
		t.Errorf("%d reads", in.calls)
	}
	var now int
	err := low.raw.Control(func(fd uintptr) { now, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT) })
	if err != nil || now != 1 {
		t.Errorf("SO_RCVLOWAT is %d, %v", now, err)
	}
}

// Whatever part of a piece comes first, the reader does not sleep for more than is
// to come: nothing else follows.
func TestReaderDoesNotSleepForTooMuch(t *testing.T) {
	a, b := pair(t, true)
	low := newLowat(b)
	in := bufio.NewReaderSize(&counted{Reader: b, low: &low}, 4<<10)
	const size = 60 << 10
	for _, first := range []int{1, 100, 4 << 10, 20 << 10, size - 1, size} {
		low.pace = 1 << 20
		if _, err := a.Write(make([]byte, first)); err != nil {
			t.Fatal(err)
		}
		var rest sync.WaitGroup
		rest.Go(func() {
			time.Sleep(5 * time.Millisecond)
			if _, err := a.Write(make([]byte, size-first)); err != nil {
				t.Error(err)
			}
		})
		if err := b.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		low.want(size - in.Buffered())
		var err error
		if first%2 == 0 {
			_, err = io.ReadFull(in, make([]byte, size))
		} else {
			_, err = in.Discard(size)
		}
		if err != nil {
			t.Fatalf("first %d bytes: %v", first, err)
		}
		low.want(0)
		rest.Wait()
	}
}

// What is too little to wake the reader is a sign of life all the same.
func TestFewBytesAreHeard(t *testing.T) {
	a, b := pair(t, true)
	r := newReal(t, "me", NewCatalog())
	r.ctx = t.Context()
	c := newConn(r, b, "you", true)
	for i, n := range []int{10, 0, 7} {
		if _, err := a.Write(make([]byte, n)); err != nil {
			t.Fatal(err)
		}
		for want := []int{10, 10, 17}[i]; queued(c.low.raw) != want; {
			time.Sleep(time.Millisecond)
		}
		c.heard.Store(0)
		c.mu.Lock()
		c.listen()
		c.mu.Unlock()
		if heard := c.heard.Load() != 0; heard != (n > 0) {
			t.Errorf("%d bytes come: heard %t", n, heard)
		}
	}
	c.close(errClosed)
}

func TestPaceOfReader(t *testing.T) {
	l := lowat{set: 1}
	now := time.Now()
	feed := func(rate int) {
		for range 200 {
			now = now.Add(time.Millisecond)
			l.got(rate/1000, now)
		}
	}
	for _, rate := range []int{1 << 20, 8 << 20, 100 << 20} {
		feed(rate)
		if want := rate / 100; l.pace < want*9/10 || l.pace > want*11/10 {
			t.Errorf("%d bytes a second are %d in %v", rate, l.pace, lowatTime)
		}
	}
	before := l.pace
	now = now.Add(time.Minute)
	l.got(10, now)
	if l.pace != before {
		t.Error("a pause counts")
	}
}
