package peer

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"
)

// how bytes were sent; a label of the metrics.
type how int

const (
	fromMemory how = iota // writev
	fromFile              // sendfile
	copied                // read from a file and written, under TLS
	hows
)

var howNames = [hows]string{"memory", "sendfile", "copied"}

// uplink is what all connections of a VM send through.
type uplink struct {
	limit *rate.Limiter // nil: none
	bytes [hows]atomic.Int64
}

// burst is what may be sent at once under a limit, in bytes. No bundle is
// larger.
const burst = 512 << 10

func newUplink(bytesPerSecond int64) *uplink {
	if bytesPerSecond <= 0 {
		return &uplink{}
	}
	return &uplink{limit: rate.NewLimiter(rate.Limit(bytesPerSecond), burst)}
}

// wait waits until n more bytes of blocks may be sent.
func (u *uplink) wait(ctx context.Context, n int) error {
	if u.limit == nil || n == 0 {
		return nil
	}
	return u.limit.WaitN(ctx, min(n, burst))
}

func (u *uplink) sent(h how, n int) { u.bytes[h].Add(int64(n)) }

// sendFile sends n bytes of f at off, without copying them through this process
// where the connection is a bare one.
func (u *uplink) sendFile(c net.Conn, raw syscall.RawConn, f *os.File, off int64, n int) error {
	if raw == nil {
		buf := make([]byte, n)
		if _, err := f.ReadAt(buf, off); err != nil {
			return err
		}
		_, err := c.Write(buf)
		u.sent(copied, n)
		return err
	}
	var failed error
	err := raw.Write(func(fd uintptr) bool {
		for n > 0 {
			sent, err := unix.Sendfile(int(fd), int(f.Fd()), &off, n)
			switch {
			case err == unix.EAGAIN:
				return false
			case err == unix.EINTR:
				continue
			case err != nil:
				failed = fmt.Errorf("sendfile: %w", err)
				return true
			case sent == 0: // the file is shorter than it was
				failed = fmt.Errorf("sendfile: %w: %w", io.ErrUnexpectedEOF, errdefs.ErrDataLoss)
				return true
			}
			u.sent(fromFile, sent)
			n -= sent
		}
		return true
	})
	if err != nil {
		return err
	}
	return failed
}

// rawOf returns the socket below a connection, nil if there is none, or TLS between.
func rawOf(c net.Conn) syscall.RawConn {
	s, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// sendMore sends what is before a part of a file, and lets the kernel wait for that
// with the last packet.
func sendMore(raw syscall.RawConn, bufs [][]byte) error {
	var failed error
	err := raw.Write(func(fd uintptr) bool {
		for len(bufs) > 0 {
			n, err := unix.SendmsgBuffers(int(fd), bufs, nil, nil, unix.MSG_MORE|unix.MSG_NOSIGNAL)
			switch {
			case err == unix.EAGAIN:
				return false
			case err == unix.EINTR:
				continue
			case err != nil:
				failed = fmt.Errorf("sendmsg: %w", err)
				return true
			}
			bufs = rest(bufs, n)
		}
		return true
	})
	if err != nil {
		return err
	}
	return failed
}

// rest takes the first n bytes off.
func rest(bufs [][]byte, n int) [][]byte {
	for len(bufs) > 0 && n >= len(bufs[0]) {
		n -= len(bufs[0])
		bufs = bufs[1:]
	}
	if n > 0 {
		bufs[0] = bufs[0][n:]
	}
	return bufs
}
