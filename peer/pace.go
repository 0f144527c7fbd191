package peer

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// frameTime is how long the connection may take for one DATA: on a fast one frames
// are larger, since each costs system calls and wake-ups, and a block that somebody
// waits for still does not wait longer for them.
const frameTime = 4 * time.Millisecond

// paceOver is over how many bytes the pace is measured.
const paceOver = 512 << 10

// sendPace is how fast a connection takes what is sent. Only the writer learns.
type sendPace struct {
	bytes int
	busy  time.Duration
	frame atomic.Int64 // bytes of the largest DATA
}

// learn takes that a write of n bytes of blocks took d, and reports whether frames
// are of another size now.
func (p *sendPace) learn(n int, d time.Duration) (changed bool) {
	if n == 0 {
		return false
	}
	p.bytes += n
	p.busy += d
	if p.bytes < paceOver {
		return false
	}
	frame := int64(maxPayload)
	if p.busy > 0 {
		frame = min(frame, int64(float64(p.bytes)*float64(frameTime)/float64(p.busy)))
	}
	frame = max(pieceSize, frame/pieceSize*pieceSize)
	p.bytes, p.busy = 0, 0
	return p.frame.Swap(frame) != frame
}

// keepPace lets the kernel hold as much unsent as suits the size of frames.
func (w *writer) keepPace() {
	if w.raw != nil {
		_ = w.raw.Control(func(fd uintptr) { // where it fails the old bound holds
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, notSentLowat/pieceSize*w.frame())
		})
	}
}

// frame is the largest DATA that is worth sending now, in bytes.
func (w *writer) frame() int { return int(w.pace.frame.Load()) }
