package endpoint

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/semaphore"
)

// maxPushes bounds the blobs that are pushed at the same time.
const maxPushes = 4

// maxKept bounds the manifests and configs that are kept after they were read
// from a registry, in bytes each.
const maxKept = 8 << 20

func isDigested(ref string) bool { return strings.Contains(ref, "@") }

func (p *Places) openRegistry(ctx context.Context, n Name) (*Image, error) {
	name, desc, err := p.Resolver.Resolve(ctx, n.Ref)
	if err != nil {
		return nil, err
	}
	fetcher, err := p.Resolver.Fetcher(ctx, name)
	if err != nil {
		return nil, err
	}
	blobs, err := p.Blobs(n.Ref)
	if err != nil {
		return nil, err
	}
	return &Image{
		Target:   desc,
		Provider: &remote{fetcher: fetcher, kept: make(map[digest.Digest][]byte)},
		Blobs:    blobs,
		source:   sourceLabels(n.Ref),
	}, nil
}

// remote is a repository as a provider. Layers are streamed, so that a layer is
// converted while it arrives and never lies on disk; what is small is kept.
type remote struct {
	fetcher remotes.Fetcher

	mu   sync.Mutex // guards kept
	kept map[digest.Digest][]byte
}

// ReaderAt opens a blob. It is meant to be read front to back: every jump is
// another request.
func (r *remote) ReaderAt(ctx context.Context, desc ocispec.Descriptor) (content.ReaderAt, error) {
	s := &stream{ctx: ctx, fetcher: r.fetcher, desc: desc}
	if images.IsLayerType(desc.MediaType) || desc.Size > maxKept {
		return s, nil
	}
	r.mu.Lock()
	b, ok := r.kept[desc.Digest]
	r.mu.Unlock()
	if ok {
		return kept{b}, nil
	}
	defer func() { _ = s.Close() }()
	b, err := io.ReadAll(io.NewSectionReader(s, 0, desc.Size))
	if err != nil {
		return nil, fmt.Errorf("blob %s: %w", desc.Digest, err)
	}
	if err := desc.Digest.Validate(); err != nil {
		return nil, fmt.Errorf("blob %q: %w: %w", desc.Digest, err, errdefs.ErrInvalidArgument)
	}
	if got := desc.Digest.Algorithm().FromBytes(b); got != desc.Digest {
		return nil, fmt.Errorf("blob %s: got %d bytes with digest %s: %w", desc.Digest, len(b), got, errdefs.ErrDataLoss)
	}
	r.mu.Lock()
	r.kept[desc.Digest] = b
	r.mu.Unlock()
	return kept{b}, nil
}

// kept is a small blob in memory.
type kept struct{ b []byte }

func (k kept) ReadAt(p []byte, off int64) (int, error) { return bytes.NewReader(k.b).ReadAt(p, off) }
func (k kept) Size() int64                             { return int64(len(k.b)) }
func (k kept) Close() error                            { return nil }

// putRegistry pushes an image. The pusher skips what the repository has and
// mounts what another repository of the same registry has, where from knows
// that by containerd's distribution source labels.
func (p *Places) putRegistry(ctx context.Context, n Name, target ocispec.Descriptor, from content.InfoReaderProvider) error {
	ref, err := reference.Parse(n.Ref)
	if err != nil {
		return fmt.Errorf("%w: %w", err, errdefs.ErrInvalidArgument)
	}
	// With the digest the pusher knows which manifest gets the tag.
	pusher, err := p.Resolver.Pusher(ctx, ref.String()+"@"+target.Digest.String())
	if err != nil {
		return err
	}
	return remotes.PushContent(ctx, pusher, target, from, semaphore.NewWeighted(maxPushes), platforms.All, func(h images.Handler) images.Handler {
		return remotes.SkipNonDistributableBlobs(h.Handle)
	})
}
