package layer

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
)

// imageLayerMin is the least bytes that one layer takes in an image section.
const imageLayerMin = 32 + 32 + 8 + 4 + 16

// DiffIDs returns the diff IDs of the layers, bottom first: the chain that the
// section is for. It must not be used for any other.
func (m *Image) DiffIDs() []digest.Digest {
	ids := make([]digest.Digest, len(m.Layers))
	for i, l := range m.Layers {
		ids[i] = l.DiffID
	}
	return ids
}

// check holds what a table claims against the blob it is in. Without it a
// reader would ask a registry for bytes behind the end of the blob.
func (l ImageLayer) check() error {
	if l.Table == nil {
		return fmt.Errorf("no block table: %w", errdefs.ErrInvalidArgument)
	}
	if l.Size < 1 || l.Table.Bytes() > l.Size {
		return fmt.Errorf("blocks of %d bytes in a layer of %d: %w", l.Table.Bytes(), l.Size, errdefs.ErrInvalidArgument)
	}
	return nil
}

// encodeImage returns the body of an image section: number of layers, layers,
// index.
func encodeImage(m *Image) ([]byte, error) {
	if len(m.Layers) > MaxLayers {
		return nil, fmt.Errorf("%v: %d layers, at most %d: %w", kindImage, len(m.Layers), MaxLayers, errdefs.ErrInvalidArgument)
	}
	le := binary.LittleEndian
	b := le.AppendUint32(nil, uint32(len(m.Layers)))
	for i, l := range m.Layers {
		err := l.check()
		if err == nil {
			b, err = appendDigest(b, l.Digest)
		}
		if err == nil {
			b, err = appendDigest(b, l.DiffID)
		}
		if err == nil {
			b, err = appendTable(le.AppendUint64(b, uint64(l.Size)), l.Table)
		}
		if err != nil {
			return nil, fmt.Errorf("%v: layer %d: %w", kindImage, i, err)
		}
	}
	return appendBytes(b, m.Index)
}

// ParseImage reads an image section, p being exactly its bytes in the blob,
// which the caller has verified. Bounds and errors are those of ParseMeta.
func ParseImage(p []byte) (*Image, error) {
	body, err := open(kindImage, p)
	if err != nil {
		return nil, err
	}
	c := &cursor{p: body}
	count := c.uint32("number of layers")
	if count > MaxLayers || int(count) > len(c.p)/imageLayerMin {
		return nil, fmt.Errorf("%v: %d layers in %d bytes: %w", kindImage, count, len(c.p), errdefs.ErrInvalidArgument)
	}
	m := &Image{Layers: make([]ImageLayer, count)}
	for i := range m.Layers {
		l, err := c.layer()
		if err != nil {
			return nil, fmt.Errorf("%v: layer %d: %w", kindImage, i, err)
		}
		m.Layers[i] = l
	}
	m.Index = c.bytes("index")
	if err := c.end(); err != nil {
		return nil, fmt.Errorf("%v: %w", kindImage, err)
	}
	return m, nil
}

func (c *cursor) layer() (ImageLayer, error) {
	l := ImageLayer{Digest: c.digest("layer digest"), DiffID: c.digest("diff ID")}
	size := c.uint64("layer size")
	l.Table = c.table()
	if c.err != nil {
		return l, c.err
	}
	if size > math.MaxInt64 {
		return l, fmt.Errorf("layer of %d bytes: %w", size, errdefs.ErrInvalidArgument)
	}
	l.Size = int64(size)
	return l, l.check()
}
