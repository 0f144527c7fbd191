package fs

import (
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/hanwen/go-fuse/v2/splice"
	"golang.org/x/sys/unix"
)

// spliceMin is the size in bytes from which a reply is spliced from the file
// instead of copied through a buffer.
const spliceMin = 16 << 10

// reply makes the answer to a READ of n bytes out of a span that View gave for
// it. It is the one place that decides what the kernel gets: n bytes or an
// error. A shorter answer would shrink the kernel's idea of the file and
// poison the layer for as long as it is mounted. reply owns s: the range is
// given back after its bytes are in the kernel, since a block evicted between
// View and the reply would read as zeros. buf has room for n bytes.
func reply(s Span, n int, buf []byte) (fuse.ReadResult, error) {
	if err := s.check(n); err != nil {
		s.done()
		return nil, err
	}
	if s.File == nil {
		return &bytesResult{data: s.Data, done: s.done}, nil
	}
	if n >= spliceMin && s.Offset%pageSize == 0 {
		if pair, ok := load(s, n); ok {
			return &pipeResult{pair: pair, n: n, done: s.done}, nil
		}
	}
	defer s.done()
	if err := readFull(s, buf[:n]); err != nil {
		return nil, err
	}
	return &bytesResult{data: buf[:n]}, nil
}

// pageSize is the smallest page of any kernel that runs this. A span that starts
// inside a page needs one more slot of the pipe than go-fuse makes room for.
const pageSize = 4096

// load puts all of s into a pipe, or fails and leaves nothing behind. go-fuse
// would splice from the file itself, but answers short when the disk fails
// half-way.
func load(s Span, n int) (*splice.Pair, bool) {
	pair, err := splice.Get()
	if err != nil {
		return nil, false
	}
	if pair.Grow(n+pageSize) == nil {
		if got, err := pair.LoadFromAt(s.File.Fd(), n, s.Offset); err == nil && got == n {
			return pair, true
		}
	}
	splice.Done(pair)
	return nil, false
}

func readFull(s Span, p []byte) error {
	for done := 0; done < len(p); {
		n, err := unix.Pread(int(s.File.Fd()), p[done:], s.Offset+int64(done))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.File.Name(), err)
		}
		if n == 0 {
			return fmt.Errorf("%s ends before %d: %w", s.File.Name(), s.Offset+int64(len(p)), errdefs.ErrDataLoss)
		}
		done += n
	}
	return nil
}

// bytesResult is an answer in memory. go-fuse sends what Slices returns with
// one writev; a result without it takes a detour through a pipe.
type bytesResult struct {
	data []byte
	done func()
}

func (r *bytesResult) Size() int { return len(r.data) }

func (r *bytesResult) Bytes([]byte) ([]byte, fuse.Status) { return r.data, fuse.OK }

func (r *bytesResult) Slices() ([][]byte, fuse.Status) { return [][]byte{r.data}, fuse.OK }

func (r *bytesResult) Done() {
	if r.done != nil {
		r.done()
	}
}

// pipeResult is an answer that waits in a pipe, whole.
type pipeResult struct {
	pair *splice.Pair
	n    int
	done func()
}

func (r *pipeResult) Size() int { return r.n }

func (r *pipeResult) Stateful() (fd uintptr, sz int) { return r.pair.ReadFd(), r.n }

// Bytes is what go-fuse falls back to when its own pipe fails.
func (r *pipeResult) Bytes(buf []byte) ([]byte, fuse.Status) {
	for done := 0; done < r.n; {
		n, err := r.pair.Read(buf[done:r.n])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return nil, fuse.EIO
		}
		done += n
	}
	return buf[:r.n], fuse.OK
}

func (r *pipeResult) Done() {
	splice.Done(r.pair)
	r.done()
}
