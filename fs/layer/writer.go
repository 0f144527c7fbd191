package layer

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"io"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/block"
)

// Writer writes a layer file: blocks in order, then sections and seek table.
// It is not safe for concurrent use, and after an error of any method only
// good for throwing away, together with what it wrote.
type Writer struct {
	w         io.Writer
	sum       hash.Hash
	blockSize int
	offset    int64 // bytes written
	length    int64 // bytes of tar stream
	entries   []block.Entry
	seek      []seekEntry
	short     bool // the last block was shorter than blockSize
	table     *block.Table
}

// NewWriter returns a Writer that writes to w, in pieces of any size: give it
// a buffered one. It does not close w.
func NewWriter(w io.Writer, blockSize int) *Writer {
	return &Writer{w: w, sum: sha256.New(), blockSize: blockSize}
}

// WriteBlock writes the next block: frame is its zstd frame, uncompressed the
// bytes of tar stream in it, which is the block size for every block but the
// last. The caller may reuse frame. Errors match errdefs.ErrInvalidArgument or
// are those of the underlying writer.
func (w *Writer) WriteBlock(frame []byte, uncompressed int) error {
	i := len(w.entries)
	switch {
	case w.table != nil:
		return fmt.Errorf("block %d after Close: %w", i, errdefs.ErrFailedPrecondition)
	case w.short:
		return fmt.Errorf("block %d after one that was short: %w", i, errdefs.ErrInvalidArgument)
	case uncompressed < 1 || uncompressed > w.blockSize:
		return fmt.Errorf("block %d of %d bytes, block size is %d: %w", i, uncompressed, w.blockSize, errdefs.ErrInvalidArgument)
	case len(frame) < 1 || len(frame) > block.MaxFrame(uncompressed):
		return fmt.Errorf("block %d takes %d bytes compressed: %w", i, len(frame), errdefs.ErrInvalidArgument)
	case i == block.MaxBlocks:
		return fmt.Errorf("more than %d blocks: %w", block.MaxBlocks, errdefs.ErrInvalidArgument)
	}
	w.short = uncompressed < w.blockSize
	w.entries = append(w.entries, block.Entry{Size: uint32(len(frame)), Sum: sha256.Sum256(frame)})
	w.length += int64(uncompressed)
	return w.frame(frame, uncompressed)
}

// frame writes one zstd frame and notes it for the seek table.
func (w *Writer) frame(p []byte, uncompressed int) error {
	w.seek = append(w.seek, seekEntry{compressed: uint32(len(p)), decompressed: uint32(uncompressed)})
	return w.write(p)
}

func (w *Writer) write(p []byte) error {
	n, err := w.w.Write(p)
	w.sum.Write(p[:n])
	w.offset += int64(n)
	return err
}

// Close writes the sections and the seek table and says what the layer is. A
// layer without blocks begins with block.EmptyFrame.
func (w *Writer) Close(s Sections) (Info, error) {
	if w.table != nil {
		return Info{}, fmt.Errorf("second Close: %w", errdefs.ErrFailedPrecondition)
	}
	table, err := block.NewTable(w.blockSize, w.length, w.entries)
	if err != nil {
		return Info{}, err
	}
	w.table = table
	if table.Len() == 0 {
		if err := w.frame([]byte(block.EmptyFrame), 0); err != nil {
			return Info{}, err
		}
	}
	body, err := encodeMeta(&Meta{Table: table, Index: s.Index})
	if err != nil {
		return Info{}, err
	}
	i := Info{Version: Version}
	if i.Meta, err = w.section(kindMeta, body); err != nil {
		return Info{}, err
	}
	if s.Image != nil {
		if body, err = encodeImage(s.Image); err != nil {
			return Info{}, err
		}
		ref, err := w.section(kindImage, body)
		if err != nil {
			return Info{}, err
		}
		i.Image = &ref
	}
	if err := w.write(appendSeekTable(nil, w.seek)); err != nil {
		return Info{}, err
	}
	i.Digest, i.Size = digest.NewDigest(digest.SHA256, w.sum), w.offset
	i.Meta.Blob = i.Digest
	if i.Image != nil {
		i.Image.Blob = i.Digest
	}
	return i, nil
}

// section writes one section; the Ref still lacks the blob's digest.
func (w *Writer) section(k kind, body []byte) (block.Ref, error) {
	p, err := seal(k, body)
	if err != nil {
		return block.Ref{}, err
	}
	ref := block.Ref{Number: block.Section, Offset: w.offset, Size: len(p), Sum: sha256.Sum256(p)}
	return ref, w.frame(p, 0)
}

// Table returns the block table, nil before Close.
func (w *Writer) Table() *block.Table { return w.table }
