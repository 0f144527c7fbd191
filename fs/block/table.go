package block

import (
	"fmt"
	"math"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
)

// MaxBlocks bounds the blocks of one layer: 512 GiB of tar stream at the
// default block size. A table of that many takes 36 MiB.
const MaxBlocks = 1 << 20

// Entry is what a block table says of one block.
type Entry struct {
	Size uint32 // compressed bytes, 1..MaxFrame of the block's length
	Sum  Sum    // of the compressed bytes
}

// MaxFrame returns the most compressed bytes that a block of n bytes may take,
// for every n up to MaxSize. It leaves room for any conforming zstd encoder:
// ZSTD_COMPRESSBOUND is n + n/256 + at most 64.
func MaxFrame(n int) int { return n + n>>8 + 128 }

// Table says of each block of a layer how many compressed bytes it takes and
// what their sum is. It is immutable and safe for concurrent use.
type Table struct {
	blockSize int
	length    int64 // bytes of the tar stream
	entries   []Entry
	offsets   []int64 // len(entries)+1 prefix sums of Entry.Size
}

// NewTable returns the table of a tar stream of length bytes cut into blocks
// of blockSize bytes, the last possibly shorter. It keeps entries. The error
// matches errdefs.ErrInvalidArgument.
func NewTable(blockSize int, length int64, entries []Entry) (*Table, error) {
	count, err := blocks(blockSize, length)
	if err != nil {
		return nil, err
	}
	if count != len(entries) {
		return nil, fmt.Errorf("block table: %d entries for %d bytes in blocks of %d, want %d: %w",
			len(entries), length, blockSize, count, errdefs.ErrInvalidArgument)
	}
	t := &Table{blockSize: blockSize, length: length, entries: entries, offsets: make([]int64, count+1)}
	for i, e := range entries {
		_, n := t.Span(i)
		if e.Size < 1 || int64(e.Size) > int64(MaxFrame(n)) {
			return nil, fmt.Errorf("block table: block %d takes %d bytes compressed, want 1 to %d: %w",
				i, e.Size, MaxFrame(n), errdefs.ErrInvalidArgument)
		}
		t.offsets[i+1] = t.offsets[i] + int64(e.Size)
	}
	return t, nil
}

// ValidSize checks that n may be the block size of a layer: a power of two
// between MinSize and MaxSize.
func ValidSize(n int) error {
	if n < MinSize || n > MaxSize || n&(n-1) != 0 {
		return fmt.Errorf("block size %d: want a power of two between %d and %d: %w",
			n, MinSize, MaxSize, errdefs.ErrInvalidArgument)
	}
	return nil
}

// blocks returns how many blocks a stream of length bytes has.
func blocks(blockSize int, length int64) (int, error) {
	if err := ValidSize(blockSize); err != nil {
		return 0, err
	}
	if length < 0 || length > math.MaxInt64-MaxSize {
		return 0, fmt.Errorf("block table: stream of %d bytes: %w", length, errdefs.ErrInvalidArgument)
	}
	count := (length + int64(blockSize) - 1) / int64(blockSize)
	if count > MaxBlocks {
		return 0, fmt.Errorf("block table: %d blocks, at most %d: %w", count, MaxBlocks, errdefs.ErrInvalidArgument)
	}
	return int(count), nil
}

// BlockSize returns the bytes of each block but the last, uncompressed.
func (t *Table) BlockSize() int { return t.blockSize }

// Length returns the bytes of the tar stream.
func (t *Table) Length() int64 { return t.length }

// Len returns the number of blocks, 0 for an empty stream.
func (t *Table) Len() int { return len(t.entries) }

// Bytes returns the sum of the compressed sizes of all blocks.
func (t *Table) Bytes() int64 { return t.offsets[len(t.entries)] }

// Ref names block i of blob, the layer that the table belongs to. It panics
// unless 0 <= i < Len.
func (t *Table) Ref(blob digest.Digest, i int) Ref {
	e := t.entries[i]
	return Ref{Blob: blob, Number: i, Offset: t.offsets[i], Size: int(e.Size), Sum: e.Sum}
}

// Span returns where block i lies in the tar stream: n bytes at off. It panics
// unless 0 <= i < Len.
func (t *Table) Span(i int) (off int64, n int) {
	_ = t.entries[i]
	off = int64(i) * int64(t.blockSize)
	return off, int(min(int64(t.blockSize), t.length-off))
}
