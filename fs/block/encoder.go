package block

import (
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/klauspost/compress/zstd"
)

// EmptyFrame is the zstd frame of no bytes. A layer whose tar stream is empty
// begins with it, because a stream of nothing but skippable frames is an error
// to some decoders. It is what libzstd emits.
const EmptyFrame = "\x28\xb5\x2f\xfd\x20\x00\x01\x00\x00"

// Encoder turns blocks into zstd frames. It needs no Close.
type Encoder struct{ z *zstd.Encoder }

// NewEncoder returns an encoder that serves blocks of up to blockSize bytes
// best; its memory, all allocated on first use, grows with blockSize and
// level: 2 MiB at 512 KiB and LevelDefault. The error matches
// errdefs.ErrInvalidArgument.
func NewEncoder(level Level, blockSize int) (*Encoder, error) {
	if !level.valid() {
		return nil, fmt.Errorf("compression %v: %w", level, errdefs.ErrInvalidArgument)
	}
	if err := ValidSize(blockSize); err != nil {
		return nil, err
	}
	z, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(levels[level].zstd),
		zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(blockSize),
		zstd.WithLowerEncoderMem(true),
		zstd.WithSingleSegment(true), // puts the content size in every frame
		zstd.WithEncoderCRC(false),   // the table has a SHA-256
		zstd.WithZeroFrames(true),
	)
	if err != nil {
		return nil, fmt.Errorf("zstd encoder: %w: %w", err, errdefs.ErrInvalidArgument)
	}
	return &Encoder{z}, nil
}

// Encode appends to dst one zstd frame that holds src and states its size, and
// returns the extended slice. The frame depends on nothing but src and the
// arguments of NewEncoder. Concurrent calls are safe and take turns: whoever
// wants to use more cores makes an Encoder for each.
func (e *Encoder) Encode(dst, src []byte) []byte {
	return e.z.EncodeAll(src, dst)
}
