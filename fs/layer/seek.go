package layer

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
)

// The seek table of the zstd seekable format, version 0.1.0: a skippable frame
// of entries and a footer.
const (
	seekMagic    = 0x184D2A5E
	footerMagic  = 0x8F92EAB1
	seekFooter   = 9
	seekChecked  = 0x80 // descriptor bit: entries have 4 more bytes, a checksum
	seekReserved = 0x7c // descriptor bits that must be 0
	maxFrames    = block.MaxBlocks + 3
)

type seekEntry struct{ compressed, decompressed uint32 }

// appendSeekTable appends the seek table of frames. The skippable frames of
// the sections have entries too, with a decompressed size of 0, so that the
// compressed sizes add up to the table's own offset.
func appendSeekTable(b []byte, frames []seekEntry) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, seekMagic)
	b = le.AppendUint32(b, uint32(8*len(frames)+seekFooter))
	for _, f := range frames {
		b = le.AppendUint32(b, f.compressed)
		b = le.AppendUint32(b, f.decompressed)
	}
	b = le.AppendUint32(b, uint32(len(frames)))
	b = append(b, 0)
	return le.AppendUint32(b, footerMagic)
}

// Frame is one entry of a seek table.
type Frame struct {
	Offset int64 // of the frame in the blob
	Size   int64 // bytes of the frame
	Start  int64 // of its content in the tar stream
	Length int64 // bytes of its content, 0 for a section
}

// ReadSeekTable reads the seek table at the end of a blob of size bytes. The
// frames begin at 0 and end where the table begins. Nothing of it is to be
// trusted before it is held against the block table. Errors match
// errdefs.ErrInvalidArgument or are those of r.
func ReadSeekTable(r io.ReaderAt, size int64) ([]Frame, error) {
	if size < frameHeader+seekFooter {
		return nil, fmt.Errorf("seek table: a blob of %d bytes has none: %w", size, errdefs.ErrInvalidArgument)
	}
	var foot [seekFooter]byte
	if err := readFull(r, foot[:], size-seekFooter); err != nil {
		return nil, fmt.Errorf("seek table: %w", err)
	}
	le := binary.LittleEndian
	count, descriptor, magic := le.Uint32(foot[:]), foot[4], le.Uint32(foot[5:])
	if magic != footerMagic || descriptor&seekReserved != 0 || count > maxFrames {
		return nil, fmt.Errorf("seek table: footer of magic %#x, descriptor %#x, %d frames: %w", magic, descriptor, count, errdefs.ErrInvalidArgument)
	}
	width := int64(8)
	if descriptor&seekChecked != 0 {
		width = 12
	}
	start := size - seekFooter - width*int64(count) - frameHeader
	if start < 0 {
		return nil, fmt.Errorf("seek table: %d frames in a blob of %d bytes: %w", count, size, errdefs.ErrInvalidArgument)
	}
	p := make([]byte, size-seekFooter-start)
	if err := readFull(r, p, start); err != nil {
		return nil, fmt.Errorf("seek table: %w", err)
	}
	if m, n := le.Uint32(p), le.Uint32(p[4:]); m != seekMagic || int64(n) != size-start-frameHeader {
		return nil, fmt.Errorf("seek table: frame of magic %#x, %d bytes: %w", m, n, errdefs.ErrInvalidArgument)
	}
	frames := make([]Frame, count)
	var at, content int64
	for i := range frames {
		e := p[frameHeader+int64(i)*width:]
		f := Frame{Offset: at, Size: int64(le.Uint32(e)), Start: content, Length: int64(le.Uint32(e[4:]))}
		at, content = at+f.Size, content+f.Length
		frames[i] = f
	}
	if at != start {
		return nil, fmt.Errorf("seek table: frames of %d bytes before offset %d: %w", at, start, errdefs.ErrInvalidArgument)
	}
	return frames, nil
}

// readFull fills p from off; a blob that is too short is io.ErrUnexpectedEOF.
func readFull(r io.ReaderAt, p []byte, off int64) error {
	if off < 0 || off > math.MaxInt64-int64(len(p)) {
		return fmt.Errorf("offset %d: %w", off, errdefs.ErrInvalidArgument)
	}
	n, err := r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}
