package index

import (
	"fmt"
	"math/bits"

	"github.com/containerd/errdefs"
)

// chunkBits returns the exponent of n's chunk size in blocks, and the number
// of chunks. A file in one piece is one chunk. Else the chunks are as large as
// the borders between data, holes and pieces allow.
func (n *inode) chunkBits() (shift, count int, err error) {
	if n.Size == 0 {
		return 0, 0, nil
	}
	var borders int64
	for _, r := range n.data {
		borders |= r.Logical / BlockSize
		if end := r.Logical + r.Size; end != n.Size {
			borders |= end / BlockSize
		}
	}
	shift = bits.Len64(uint64(blocks(n.Size) - 1))
	if borders != 0 {
		shift = min(shift, bits.TrailingZeros64(uint64(borders)))
	}
	shift = min(shift, maxChunkBits)
	chunks := (blocks(n.Size)-1)>>shift + 1
	if chunks > maxChunks {
		return 0, 0, fmt.Errorf("sparse file of %d bytes needs %d chunks of %d bytes, the limit is %d: %w",
			n.Size, chunks, int64(BlockSize)<<shift, maxChunks, errdefs.ErrInvalidArgument)
	}
	return shift, int(chunks), nil
}

// checkRanges checks that n's ranges are what Range promises and lie inside
// the devices, whose lengths are given in bytes.
func (n *inode) checkRanges(devices []int64) error {
	var end int64
	for i, r := range n.data {
		ok := r.Size > 0 && r.Logical >= end && r.Logical%BlockSize == 0 && r.Offset >= 0 && r.Offset%BlockSize == 0 &&
			r.Logical <= n.Size-r.Size && (r.Size%BlockSize == 0 || i == len(n.data)-1 && r.Logical+r.Size == n.Size)
		if !ok {
			return fmt.Errorf("bad data range %+v: %w", r, errdefs.ErrInvalidArgument)
		}
		if r.Device < 0 || r.Device >= len(devices) || r.Offset > devices[r.Device]-r.Size {
			return fmt.Errorf("data range %+v is outside the layers: %w", r, errdefs.ErrInvalidArgument)
		}
		end = r.Logical + r.Size
	}
	return nil
}
