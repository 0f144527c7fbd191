package endpoint

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/fs/block"
)

// ranges is a content.Provider as a source of blocks. It verifies nothing.
type ranges struct{ content.Provider }

// ReadBlock reads the bytes of ref.
func (r ranges) ReadBlock(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
	if ref.Size < 1 || ref.Size > block.MaxSection {
		return dst, fmt.Errorf("%v: %d bytes: %w", ref, ref.Size, errdefs.ErrInvalidArgument)
	}
	ra, err := r.ReaderAt(ctx, ocispec.Descriptor{Digest: ref.Blob})
	if err != nil {
		return dst, err
	}
	defer ra.Close()
	n := len(dst)
	out := slices.Grow(dst, ref.Size)[:n+ref.Size]
	if got, err := ra.ReadAt(out[n:], ref.Offset); got != ref.Size {
		if err == nil || err == io.EOF {
			err = fmt.Errorf("got %d of %d bytes: %w", got, ref.Size, errdefs.ErrDataLoss)
		}
		return dst, fmt.Errorf("%v: %w", ref, err)
	}
	return out, nil
}
