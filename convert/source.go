package convert

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// maxWindow bounds the history a zstd source layer may ask for, in bytes: what
// the zstd tool itself accepts without a switch.
const maxWindow = 128 << 20

// readSize is how much of the source blob is read at once, in bytes.
const readSize = 128 << 10

// blobReader reads a blob front to back and knows, at its end, whether it was
// the blob that its descriptor names. err is the first error of the blob
// itself: whoever decodes the bytes must prefer it to the decoder's.
type blobReader struct {
	ctx      context.Context //nolint:containedctx // of the call that reads
	r        io.Reader
	closer   io.Closer
	desc     ocispec.Descriptor
	progress func(n int)
	sum      digest.Digester
	n        int64
	err      error
}

// openBlob opens the blob of desc. A blob without bytes is not asked for: some
// registries refuse it.
func openBlob(ctx context.Context, cs content.Provider, desc ocispec.Descriptor) (*blobReader, error) {
	if err := desc.Digest.Validate(); err != nil {
		return nil, fmt.Errorf("layer %q: %w: %w", desc.Digest, err, errdefs.ErrInvalidArgument)
	}
	b := &blobReader{
		ctx: ctx, r: bytes.NewReader(nil), closer: io.NopCloser(nil), desc: desc,
		progress: func(int) {}, sum: desc.Digest.Algorithm().Digester(),
	}
	if desc.Size == 0 {
		return b, nil
	}
	ra, err := cs.ReaderAt(ctx, desc)
	if err != nil {
		return nil, fmt.Errorf("layer %s: %w", desc.Digest, err)
	}
	b.r, b.closer = io.NewSectionReader(ra, 0, desc.Size), ra
	return b, nil
}

// Close closes the blob. Calling it twice is harmless.
func (b *blobReader) Close() error { return b.closer.Close() }

// Read gives io.EOF only when all bytes were there and had the right sum.
func (b *blobReader) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if err := b.ctx.Err(); err != nil {
		b.err = err
		return 0, err
	}
	n, err := b.r.Read(p)
	b.sum.Hash().Write(p[:n])
	b.n += int64(n)
	b.progress(n)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = b.end()
	}
	b.err = err
	return n, err
}

func (b *blobReader) end() error {
	if b.n != b.desc.Size {
		return fmt.Errorf("short layer: got %d of %d bytes of %s: %w", b.n, b.desc.Size, b.desc.Digest, io.ErrUnexpectedEOF)
	}
	if got := b.sum.Digest(); got != b.desc.Digest {
		return fmt.Errorf("layer %s: its bytes have digest %s: %w", b.desc.Digest, got, errdefs.ErrDataLoss)
	}
	return io.EOF
}

// fail is the error to report when decoding the blob gave err. Damage to the
// blob itself explains more than what a decoder makes of it.
func (b *blobReader) fail(err error) error {
	if rest := b.drain(); rest != nil {
		return rest
	}
	return fmt.Errorf("layer %s: %w", b.desc.Digest, err)
}

// drain reads what the decoder left, so that length and sum are checked.
func (b *blobReader) drain() error {
	_, err := io.Copy(io.Discard, b)
	return err
}

// decompress gives the tar stream of a layer blob. Like containerd it goes by
// the bytes and not by the media type, which old tools set wrongly. An empty
// blob is an empty stream.
func decompress(r io.Reader) (io.ReadCloser, error) {
	br := bufio.NewReaderSize(r, readSize)
	magic, err := br.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b, 0x08}):
		return gzip.NewReader(br)
	case isZstd(magic):
		d, err := zstd.NewReader(br, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	default:
		return io.NopCloser(br), nil
	}
}

// isZstd knows the magic of a zstd frame and of a skippable one (RFC 8878).
func isZstd(m []byte) bool {
	return bytes.HasPrefix(m, []byte{0x28, 0xb5, 0x2f, 0xfd}) ||
		len(m) == 4 && m[0]&0xf0 == 0x50 && bytes.Equal(m[1:], []byte{0x2a, 0x4d, 0x18})
}
