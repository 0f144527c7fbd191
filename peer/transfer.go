package peer

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/fs/block"
)

// sendFile sends a stored block. It is read from the disk while it waits for its
// turn: the writer, on whom others wait, finds it in memory.
func (c *conn) sendFile(ctx context.Context, t transfer, f *os.File, size int) error {
	_ = unix.Fadvise(int(f.Fd()), 0, int64(size), unix.FADV_WILLNEED) // where it fails the writer reads
	return c.out.send(ctx, t.class(), &packet{header: t.header, stream: t.stream, file: f, left: size})
}

// transfer is what the DATA of one block have in common.
type transfer struct {
	class  func() class
	header header
	stream uint64
	before []byte // frames that go out with the first DATA; nil once they have
}

// sendTap sends a block while it arrives, and calls wait now and then while
// nothing does.
func (c *conn) sendTap(ctx context.Context, t *transfer, tap block.Tap, wait func()) error {
	for {
		p, err := c.next(ctx, tap, wait)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for len(p) > 0 {
			n := min(len(p), c.out.frame())
			t.header.size = uint32(n)
			q := &packet{header: t.header, stream: t.stream, before: t.before, body: p[:n:n]}
			err := c.out.send(ctx, t.class(), q)
			if !q.dropped {
				t.before = nil
			}
			if err != nil {
				return err
			}
			p = p[n:]
		}
	}
}

// firstSign is after what time without a piece the asker hears that we wait.
const firstSign = 25 * time.Millisecond

// next returns the next bytes of a tap.
func (c *conn) next(ctx context.Context, tap block.Tap, wait func()) ([]byte, error) {
	for d := min(firstSign, c.r.opts.KeepAlive); ; d = c.r.opts.KeepAlive {
		within, cancel := context.WithTimeout(ctx, d)
		p, err := tap.Next(within)
		cancel()
		if err == nil || !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil || errdefs.IsAborted(err) {
			return p, err
		}
		wait()
	}
}
