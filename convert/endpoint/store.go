package endpoint

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"sync"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/plugins/content/local"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// NewStore returns a content store in dir that reads what it does not have from
// the places below, the first that has it. It is written in dir only, and its
// labels last as long as it does. The caller removes dir.
func NewStore(dir string, below ...content.InfoReaderProvider) (content.Store, error) {
	// Walk fails where there was never a blob.
	if err := os.MkdirAll(filepath.Join(dir, ocispec.ImageBlobsDir), 0o755); err != nil {
		return nil, err
	}
	cs, err := local.NewLabeledStore(dir, &labels{m: make(map[digest.Digest]map[string]string)})
	if err != nil {
		return nil, err
	}
	return &stack{Store: cs, below: below}, nil
}

type stack struct {
	content.Store
	below []content.InfoReaderProvider
}

func (s *stack) Info(ctx context.Context, d digest.Digest) (content.Info, error) {
	i, err := s.Store.Info(ctx, d)
	for _, b := range s.below {
		if !errdefs.IsNotFound(err) {
			break
		}
		i, err = b.Info(ctx, d)
	}
	return i, err
}

func (s *stack) ReaderAt(ctx context.Context, desc ocispec.Descriptor) (content.ReaderAt, error) {
	ra, err := s.Store.ReaderAt(ctx, desc)
	for _, b := range s.below {
		if !errdefs.IsNotFound(err) {
			break
		}
		ra, err = b.ReaderAt(ctx, desc)
	}
	return ra, err
}

// labels is a local.LabelStore in memory.
type labels struct {
	mu sync.Mutex // guards m
	m  map[digest.Digest]map[string]string
}

func (l *labels) Get(d digest.Digest) (map[string]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.m[d]), nil
}

func (l *labels) Set(d digest.Digest, m map[string]string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.m[d] = maps.Clone(m)
	return nil
}

func (l *labels) Update(d digest.Digest, m map[string]string) (map[string]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := maps.Clone(l.m[d])
	if out == nil {
		out = make(map[string]string)
	}
	for k, v := range m {
		if v == "" {
			delete(out, k)
		} else {
			out[k] = v
		}
	}
	l.m[d] = out
	return maps.Clone(out), nil
}
