package block

import (
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/klauspost/compress/zstd"
)

// maxInner is Block_Maximum_Size of RFC 8878, section 3.1.1.2.4: no zstd block
// decodes to more bytes.
const maxInner = 128 << 10

// checkFrame checks, without decoding, that p is exactly one zstd frame that
// states a content size of want bytes, needs no dictionary and has enough zstd
// blocks to make want bytes. So nobody allocates memory on the word of a few
// hostile bytes.
func checkFrame(p []byte, want int) error {
	var h zstd.Header
	if err := h.Decode(p); err != nil {
		return fmt.Errorf("zstd frame: %w: %w", err, errdefs.ErrDataLoss)
	}
	switch {
	case h.Skippable:
		return fmt.Errorf("zstd frame is skippable: %w", errdefs.ErrDataLoss)
	case h.DictionaryID != 0:
		return fmt.Errorf("zstd frame needs dictionary %d: %w", h.DictionaryID, errdefs.ErrDataLoss)
	case !h.HasFCS || h.FrameContentSize != uint64(want):
		return fmt.Errorf("zstd frame states %d bytes (stated: %v), want %d: %w", h.FrameContentSize, h.HasFCS, want, errdefs.ErrDataLoss)
	}
	rest := p[h.HeaderSize:]
	most, last := 0, false
	for !last {
		if len(rest) < 3 {
			return fmt.Errorf("zstd frame is cut off: %w", errdefs.ErrDataLoss)
		}
		v := int(rest[0]) | int(rest[1])<<8 | int(rest[2])<<16
		last = v&1 != 0
		stored, decoded := v>>3, v>>3
		switch v >> 1 & 3 {
		case 1: // RLE
			stored = 1
		case 2: // compressed
			decoded = maxInner
		case 3:
			return fmt.Errorf("zstd frame has a block of reserved type: %w", errdefs.ErrDataLoss)
		}
		if decoded > maxInner || stored > len(rest)-3 {
			return fmt.Errorf("zstd frame has a block of %d bytes: %w", v>>3, errdefs.ErrDataLoss)
		}
		most += decoded
		rest = rest[3+stored:]
	}
	tail := 0
	if h.HasCheckSum {
		tail = 4
	}
	if len(rest) != tail {
		return fmt.Errorf("%d bytes behind the zstd frame: %w", len(rest)-tail, errdefs.ErrDataLoss)
	}
	if most < want {
		return fmt.Errorf("zstd frame states %d bytes and holds at most %d: %w", want, most, errdefs.ErrDataLoss)
	}
	return nil
}
