package fetch

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// buffer is a block in memory, shared and read only once it is filled. Who
// holds it releases it; the last release gives the memory back to the pool.
type buffer struct {
	bytes []byte
	refs  atomic.Int32
}

// Buffers of the sizes that blocks have are pooled, by power of two; sections
// larger than the largest are left to the garbage collector.
const (
	minBuffer = 12 // 4 KiB
	maxBuffer = 23 // 8 MiB
)

var pools [maxBuffer + 1]sync.Pool // the memory is shared by all fetchers, nothing else is

func bufferClass(n int) int { return max(minBuffer, bits.Len(uint(max(n, 1)-1))) }

// newBuffer returns an empty buffer with room for n bytes, held once.
func newBuffer(n int) *buffer {
	class := bufferClass(n)
	if class > maxBuffer {
		b := &buffer{bytes: make([]byte, 0, n)}
		b.refs.Store(1)
		return b
	}
	b, _ := pools[class].Get().(*buffer)
	if b == nil {
		b = &buffer{bytes: make([]byte, 0, 1<<class)}
	}
	b.bytes = b.bytes[:0]
	b.refs.Store(1)
	return b
}

func (b *buffer) retain() *buffer {
	b.refs.Add(1)
	return b
}

func (b *buffer) release() {
	if b.refs.Add(-1) > 0 {
		return
	}
	if class := bufferClass(cap(b.bytes)); class <= maxBuffer && cap(b.bytes) == 1<<class {
		pools[class].Put(b)
	}
}
