package block

import (
	"fmt"
	"slices"

	"github.com/containerd/errdefs"
	"github.com/klauspost/compress/zstd"
)

// MaxDecoded bounds the decoded bytes of one frame, in bytes: a section with
// the indexes of 1,500,000 files. A block never has more than MaxSize.
const MaxDecoded = 256 << 20

// Decoder turns zstd frames back into blocks. It is safe for concurrent use
// and decodes on as many cores as callers bring. It needs no Close.
type Decoder struct{ z *zstd.Decoder }

// NewDecoder returns a decoder. It holds less than 1 MiB a core.
func NewDecoder() *Decoder {
	z, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(0),
		zstd.WithDecoderMaxMemory(MaxDecoded),
		zstd.WithDecoderMaxWindow(MaxDecoded), // a window is only a limit here: DecodeAll decodes in place
		zstd.WithDecodeAllCapLimit(true),
	)
	if err != nil {
		panic("block: " + err.Error()) // the options are constants
	}
	return &Decoder{z}
}

// Decode appends the content of frame to dst and returns the extended slice.
// frame must be exactly one zstd frame that states, and has, want bytes; want
// is a checked number, at most MaxDecoded. On error dst is returned unchanged
// in length and the error matches errdefs.ErrDataLoss. It allocates at most
// want bytes, and only when frame may really hold them.
//
// A frame that was verified by its Sum and still fails here was made wrong.
func (d *Decoder) Decode(dst, frame []byte, want int) ([]byte, error) {
	if want < 0 || want > MaxDecoded {
		return dst, fmt.Errorf("decode %d bytes: more than %d: %w", want, MaxDecoded, errdefs.ErrDataLoss)
	}
	if err := checkFrame(frame, want); err != nil {
		return dst, err
	}
	n := len(dst)
	dst = slices.Grow(dst, want)
	out, err := d.z.DecodeAll(frame, dst[:n:n+want])
	if err != nil {
		return dst, fmt.Errorf("zstd frame: %w: %w", err, errdefs.ErrDataLoss)
	}
	if len(out) != n+want {
		return dst, fmt.Errorf("zstd frame has %d bytes, want %d: %w", len(out)-n, want, errdefs.ErrDataLoss)
	}
	if want > 0 && &out[n] == &dst[:n+1][n] {
		return dst[:n+want], nil // with all of its capacity, which out lacks
	}
	return out, nil
}
