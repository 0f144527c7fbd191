package endpoint

import (
	"context"
	"maps"
	"net/url"

	"github.com/containerd/containerd/v2/core/content"
	containerdlabels "github.com/containerd/containerd/v2/pkg/labels"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/fs/block"
)

// Image is an image at its place: a content.InfoReaderProvider of its blobs.
type Image struct {
	Name   string
	Target ocispec.Descriptor // of the manifest or index
	// Provider reads blobs. Manifests, indexes and configs that come from a
	// registry were verified; nothing else was.
	content.Provider
	// Blobs reads ranges of layer blobs, unverified.
	Blobs block.Source

	source map[string]string // labels that tell a pusher where the blobs are
}

// Info says what is known of a blob without asking a registry: there it may be
// no more than the repository.
func (i *Image) Info(ctx context.Context, d digest.Digest) (content.Info, error) {
	if p, ok := i.Provider.(content.InfoProvider); ok {
		return p.Info(ctx, d)
	}
	return content.Info{Digest: d, Labels: maps.Clone(i.source)}, nil
}

// sourceLabels says that the blobs of ref are in its repository, so that they
// can be mounted into another one of the same registry. containerd's keys have
// no port.
func sourceLabels(ref string) map[string]string {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return nil
	}
	host := (&url.URL{Host: reference.Domain(named)}).Hostname()
	return map[string]string{containerdlabels.LabelDistributionSource + "." + host: reference.Path(named)}
}
