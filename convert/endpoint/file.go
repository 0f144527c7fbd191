package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/fs/block"
)

// File is one layer blob in a file of its own, whatever digest it is asked for.
// It is a block.Source and a content.Provider.
type File struct {
	f    *os.File
	size int64
}

// OpenFile opens a blob. The caller closes it.
func OpenFile(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &File{f, info.Size()}, nil
}

// Size is the length in bytes.
func (f *File) Size() int64 { return f.size }

// ReadAt reads.
func (f *File) ReadAt(p []byte, off int64) (int, error) { return f.f.ReadAt(p, off) }

// Close closes the file.
func (f *File) Close() error { return f.f.Close() }

// ReaderAt gives the file; closing what it returns does nothing.
func (f *File) ReaderAt(context.Context, ocispec.Descriptor) (content.ReaderAt, error) {
	return borrowed{f}, nil
}

type borrowed struct{ *File }

func (borrowed) Close() error { return nil }

// ReadBlock reads the bytes of ref.
func (f *File) ReadBlock(_ context.Context, ref block.Ref, dst []byte) ([]byte, error) {
	return readRange(f, ref, dst)
}

// readRange appends the bytes of ref to dst.
func readRange(r io.ReaderAt, ref block.Ref, dst []byte) ([]byte, error) {
	if ref.Size < 1 || ref.Size > block.MaxSection {
		return dst, fmt.Errorf("%v: %d bytes: %w", ref, ref.Size, errdefs.ErrInvalidArgument)
	}
	n := len(dst)
	out := slices.Grow(dst, ref.Size)[:n+ref.Size]
	if got, err := r.ReadAt(out[n:], ref.Offset); got != ref.Size {
		if err == nil || errors.Is(err, io.EOF) {
			err = fmt.Errorf("got %d of %d bytes: %w", got, ref.Size, errdefs.ErrDataLoss)
		}
		return dst, fmt.Errorf("%v: %w", ref, err)
	}
	return out, nil
}
