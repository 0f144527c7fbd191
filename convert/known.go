package convert

import (
	"context"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/pkg/labels"
	"github.com/opencontainers/go-digest"
)

// diffIDStore is a content store that knows the diff IDs of an image's layers
// from the image's config. Without it the converter would decompress every
// layer once more, one after the other, to find them out. Layer verifies them.
type diffIDStore struct {
	content.Store
	ids map[digest.Digest]digest.Digest
}

func withDiffIDs(cs content.Store, ids map[digest.Digest]digest.Digest) content.Store {
	return diffIDStore{cs, ids}
}

// Info adds the label containerd.io/uncompressed.
func (s diffIDStore) Info(ctx context.Context, d digest.Digest) (content.Info, error) {
	i, err := s.Store.Info(ctx, d)
	if err != nil {
		return i, err
	}
	if id, ok := s.ids[d]; ok {
		i.Labels = withValue(i.Labels, labels.LabelUncompressed, id.String())
	}
	return i, nil
}
