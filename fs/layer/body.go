package layer

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/block"
)

// cursor takes fields off a decoded body. After the first failure it gives
// zeros and keeps the error, which matches errdefs.ErrInvalidArgument.
type cursor struct {
	p   []byte
	err error
}

// take returns the next n bytes, a part of the body.
func (c *cursor) take(n uint64, what string) []byte {
	if c.err == nil && n > uint64(len(c.p)) {
		c.err = fmt.Errorf("%s: %d bytes, %d are left: %w", what, n, len(c.p), errdefs.ErrInvalidArgument)
	}
	if c.err != nil {
		return nil
	}
	b := c.p[:n:n]
	c.p = c.p[n:]
	return b
}

func (c *cursor) uint32(what string) uint32 {
	if b := c.take(4, what); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) uint64(what string) uint64 {
	if b := c.take(8, what); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// bytes returns a field that its u32 length precedes.
func (c *cursor) bytes(what string) []byte {
	return c.take(uint64(c.uint32(what)), what)
}

func (c *cursor) digest(what string) digest.Digest {
	return digest.NewDigestFromBytes(digest.SHA256, c.take(32, what))
}

func (c *cursor) table() *block.Table {
	b := c.bytes("block table")
	if c.err != nil {
		return nil
	}
	t, err := block.ParseTable(b)
	c.err = err
	return t
}

// end checks that nothing is left.
func (c *cursor) end() error {
	if c.err == nil && len(c.p) > 0 {
		c.err = fmt.Errorf("%d bytes behind the end: %w", len(c.p), errdefs.ErrInvalidArgument)
	}
	return c.err
}

// appendBytes appends b with its length in front.
func appendBytes(dst, b []byte) ([]byte, error) {
	if uint64(len(b)) > math.MaxUint32 {
		return nil, fmt.Errorf("field of %d bytes: %w", len(b), errdefs.ErrInvalidArgument)
	}
	return append(binary.LittleEndian.AppendUint32(dst, uint32(len(b))), b...), nil
}

// appendTable appends the binary form of t with its length in front.
func appendTable(dst []byte, t *block.Table) ([]byte, error) {
	b, err := t.AppendBinary(nil)
	if err != nil {
		return nil, err
	}
	return appendBytes(dst, b)
}

// appendDigest appends the 32 bytes of d, which must be a SHA-256.
func appendDigest(dst []byte, d digest.Digest) ([]byte, error) {
	sum, err := parseSum(string(d))
	return append(dst, sum[:]...), err
}
