// Package inspect looks into converted layers and images: what they are made
// of, the files in them, and whether all of it is right. Looking reads ranges
// of blobs only; Verify reads all of them.
package inspect

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/fs/block"
)

// maxJSON bounds a manifest or config, in bytes.
const maxJSON = 8 << 20

// readSection reads a section and verifies it.
func readSection(ctx context.Context, blobs block.Source, ref block.Ref) ([]byte, error) {
	p, err := blobs.ReadBlock(ctx, ref, nil)
	if err != nil {
		return nil, err
	}
	return p, ref.Verify(p)
}

// readJSON reads a manifest, index or config into v and verifies it.
func readJSON(ctx context.Context, p content.Provider, desc ocispec.Descriptor, v any) error {
	if err := desc.Digest.Validate(); err != nil {
		return fmt.Errorf("digest %q: %w: %w", desc.Digest, err, errdefs.ErrInvalidArgument)
	}
	if desc.Size < 0 || desc.Size > maxJSON {
		return fmt.Errorf("%s: %d bytes of JSON, at most %d: %w", desc.Digest, desc.Size, maxJSON, errdefs.ErrInvalidArgument)
	}
	b, err := content.ReadBlob(ctx, p, desc)
	if err != nil {
		return fmt.Errorf("%s: %w", desc.Digest, err)
	}
	if got := desc.Digest.Algorithm().FromBytes(b); got != desc.Digest {
		return fmt.Errorf("%s: its bytes have digest %s: %w", desc.Digest, got, errdefs.ErrDataLoss)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w: %w", desc.Digest, err, errdefs.ErrInvalidArgument)
	}
	return nil
}
