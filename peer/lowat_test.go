package peer

import (
	"bufio"
	"bytes"
	"io"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/fs/block/blocktest"
)

// counted counts the reads that bring something.
type counted struct {
	io.Reader
	low   *lowat
	calls int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if n > 0 {
		c.calls++
		c.low.got(n, time.Now())
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
	for range 3 {
		go dribble(want)
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
		low.pace = 1 << 20
	}
	t.Logf("%d reads for 3 times %d packets", in.calls, size>>10)
	if in.calls > 3*12 { // 4 KiB at first, then the rest, which may be there in parts
		t.Errorf("%d reads", in.calls)
	}
	var now int
	err := low.raw.Control(func(fd uintptr) { now, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT) })
	if err != nil || now != 1 {
		t.Errorf("SO_RCVLOWAT is %d, %v", now, err)
	}
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
