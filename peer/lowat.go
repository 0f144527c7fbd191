package peer

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lowat has the kernel wake the reader of a connection only when there is enough
// to be of use: on a slow link a piece arrives in many packets, and to wake up for
// each costs more CPU time than all the rest. It belongs to the reader.
type lowat struct {
	raw syscall.RawConn // nil: nothing is done
	set int             // SO_RCVLOWAT; never more than is to come
	due int             // bytes that are to come before there is anything to do

	since time.Time // of the pace
	bytes int       // that came since then
	pace  int       // bytes in lowatTime; 0: not known yet
}

const (
	// lowatTime is how long the reader may sleep longer than without, at the pace
	// of the connection. It is a small part of a keep-alive: who sends is heard.
	lowatTime = 10 * time.Millisecond
	// lowatOver is over what time the pace is measured.
	lowatOver = 50 * time.Millisecond
	// lowatLeast is not worth two system calls, in bytes.
	lowatLeast = 16 << 10
)

func newLowat(c net.Conn) lowat { return lowat{raw: rawOf(c), set: 1} }

// got takes that n bytes came.
func (l *lowat) got(n int, now time.Time) {
	l.due -= n
	l.bytes += n
	d := now.Sub(l.since)
	if d < lowatOver {
		return
	}
	if d < 4*lowatOver { // else the connection was idle for a while
		l.pace = int(float64(l.bytes) * float64(lowatTime) / float64(d))
	}
	l.since, l.bytes = now, 0
}

// want says that n bytes are to come before there is anything to do; at most the
// rest of what is being read, since nobody knows what follows.
func (l *lowat) want(n int) {
	l.due = n
	l.put(n)
}

// read is told that the reader goes on to read.
func (l *lowat) read() {
	if l.due < l.set { // it would sleep for ever
		l.put(l.due)
	}
}

func (l *lowat) put(n int) {
	if l.raw == nil {
		return
	}
	if n = min(n, l.pace); n < lowatLeast {
		n = 1
	}
	if n == l.set {
		return
	}
	l.set = n
	_ = l.raw.Control(func(fd uintptr) { // where it fails we wake up more often
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, n)
	})
}

// queued returns how many bytes have come that nobody has read, 0 if that cannot be
// told.
func queued(raw syscall.RawConn) (n int) {
	if raw == nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { // where it fails they are as good as none
		n, _ = unix.IoctlGetInt(int(fd), unix.SIOCINQ)
	})
	return n
}
