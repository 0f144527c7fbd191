package layer

import "fmt"

// encodeMeta returns the body of a metadata section: block table, index.
func encodeMeta(m *Meta) ([]byte, error) {
	b, err := appendTable(nil, m.Table)
	if err != nil {
		return nil, err
	}
	return appendBytes(b, m.Index)
}

// ParseMeta reads a metadata section, p being exactly its bytes in the blob,
// which the caller has verified. It keeps nothing of p. Memory is bounded by
// the sizes that p states, checked against block.MaxDecoded and against what p
// can hold. Errors match errdefs.ErrInvalidArgument, ErrDataLoss where the
// body does not decode, or ErrNotImplemented for an unknown version.
func ParseMeta(p []byte) (*Meta, error) {
	body, err := open(kindMeta, p)
	if err != nil {
		return nil, err
	}
	c := &cursor{p: body}
	m := &Meta{Table: c.table(), Index: c.bytes("index")}
	if err := c.end(); err != nil {
		return nil, fmt.Errorf("%v: %w", kindMeta, err)
	}
	return m, nil
}
