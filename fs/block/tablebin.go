package block

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/containerd/errdefs"
)

// Sizes of a table's binary form, in bytes.
const (
	tableHeader = 16
	tableEntry  = 4 + len(Sum{})
)

// AppendBinary appends the table's binary form to b: block size (u32), number
// of blocks (u32), length of the stream (u64), then for each block its
// compressed size (u32) and sum (32 bytes), all little-endian. It implements
// encoding.BinaryAppender; the error is always nil.
func (t *Table) AppendBinary(b []byte) ([]byte, error) {
	le := binary.LittleEndian
	b = le.AppendUint32(b, uint32(t.blockSize))
	b = le.AppendUint32(b, uint32(len(t.entries)))
	b = le.AppendUint64(b, uint64(t.length))
	for _, e := range t.entries {
		b = le.AppendUint32(b, e.Size)
		b = append(b, e.Sum[:]...)
	}
	return b, nil
}

// ParseTable reads what AppendBinary wrote; b must be exactly one table. It
// keeps nothing of b, allocates at most about len(b) bytes times 1.3, and its
// errors match errdefs.ErrInvalidArgument.
func ParseTable(b []byte) (*Table, error) {
	if len(b) < tableHeader {
		return nil, fmt.Errorf("block table: %d bytes are too short: %w", len(b), errdefs.ErrInvalidArgument)
	}
	le := binary.LittleEndian
	blockSize, count, length := le.Uint32(b), le.Uint32(b[4:]), le.Uint64(b[8:])
	b = b[tableHeader:]
	if uint64(len(b)) != uint64(count)*uint64(tableEntry) {
		return nil, fmt.Errorf("block table: %d bytes for %d entries: %w", len(b), count, errdefs.ErrInvalidArgument)
	}
	if length > math.MaxInt64 {
		return nil, fmt.Errorf("block table: stream of %d bytes: %w", length, errdefs.ErrInvalidArgument)
	}
	entries := make([]Entry, count)
	for i := range entries {
		entries[i].Size = le.Uint32(b)
		copy(entries[i].Sum[:], b[4:])
		b = b[tableEntry:]
	}
	return NewTable(int(blockSize), int64(length), entries)
}
