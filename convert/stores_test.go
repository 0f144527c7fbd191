package convert_test

import (
	"bytes"
	"context"

	"github.com/containerd/containerd/v2/core/content"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// odd is a content store whose blobs are read in odd ways.
type odd struct {
	content.Store
	read func(p []byte, off int64, blob []byte) (int, error)
}

func (o odd) ReaderAt(ctx context.Context, desc ocispec.Descriptor) (content.ReaderAt, error) {
	b, err := content.ReadBlob(ctx, o.Store, desc)
	return oddReader{bytes.NewReader(b), b, o.read}, err
}

type oddReader struct {
	*bytes.Reader
	blob []byte
	read func(p []byte, off int64, blob []byte) (int, error)
}

func (r oddReader) ReadAt(p []byte, off int64) (int, error) { return r.read(p, off, r.blob) }
func (r oddReader) Close() error                            { return nil }
