package peer

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// notSentLowat bounds what the kernel holds unsent for us, in bytes. What
	// lies there goes out before anything more urgent.
	notSentLowat = 128 << 10
	// userTimeout ends a connection whose bytes nobody acknowledges.
	userTimeout = 10 * time.Second
	// probeAfter is when the kernel begins to ask an idle one whether it lives.
	probeAfter = 15 * time.Second
)

// tune sets what a relay connection needs. A connection that is none of the
// kernel's stays as it is.
func tune(c net.Conn) error {
	s, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		for _, o := range [...]struct{ level, name, value int }{
			{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
			{unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, notSentLowat},
			{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(userTimeout.Milliseconds())},
			{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
			{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, int(probeAfter.Seconds())},
			{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 5},
			{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3},
		} {
			if err := unix.SetsockoptInt(int(fd), o.level, o.name, o.value); err != nil && failed == nil {
				failed = err
			}
		}
	})
	if err != nil {
		return err
	}
	return failed
}
