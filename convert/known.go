package convert

import (
	"context"
	"sync"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/pkg/labels"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// diffIDStore is a content store that knows the diff IDs of an image's layers,
// from the image's config. Without it the converter would read every layer once
// more, one after the other, to find them out: sources, and converted layers
// that are used again and lie elsewhere. Layer verifies what it converts.
type diffIDStore struct {
	content.Store

	mu  sync.Mutex // guards ids
	ids map[digest.Digest]digest.Digest
}

// Info adds the label containerd.io/uncompressed.
func (s *diffIDStore) Info(ctx context.Context, d digest.Digest) (content.Info, error) {
	i, err := s.Store.Info(ctx, d)
	if err != nil {
		return i, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if id, ok := s.ids[d]; ok {
		i.Labels = withValue(i.Labels, labels.LabelUncompressed, id.String())
	}
	return i, nil
}

// layer is c.Layer that tells the store what the result is.
func (s *diffIDStore) layer(c *Converter) func(context.Context, content.Store, ocispec.Descriptor) (*ocispec.Descriptor, error) {
	return func(ctx context.Context, cs content.Store, desc ocispec.Descriptor) (*ocispec.Descriptor, error) {
		out, err := c.Layer(ctx, cs, desc)
		if err == nil && out != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.ids[out.Digest] = s.ids[desc.Digest]
		}
		return out, err
	}
}
