package memory

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// generated is a tar stream with one large file that is never in memory: pages
// of zeros and pages that do not compress take turns.
type generated struct {
	head []byte
	size int64
}

func (g *generated) Size() int64  { return g.size }
func (g *generated) Close() error { return nil }

func (g *generated) ReadAt(p []byte, off int64) (int, error) {
	if off >= g.size {
		return 0, io.EOF
	}
	if off < int64(len(g.head)) {
		return copy(p, g.head[off:]), nil
	}
	p = p[:min(int64(len(p)), g.size-off)]
	clear(p)
	for i := (8 - int(off%8)) % 8; i+8 <= len(p); i += 8 {
		if at := uint64(off) + uint64(i); at>>12&7 == 0 && int64(at) < g.size-1024 {
			binary.LittleEndian.PutUint64(p[i:], at*0x9e3779b97f4a7c15^at>>3)
		}
	}
	return len(p), nil
}

// sink is a content store that has one blob and forgets what is written.
type sink struct{ blob content.ReaderAt }

func (s sink) ReaderAt(context.Context, ocispec.Descriptor) (content.ReaderAt, error) {
	return s.blob, nil
}

func (sink) Info(_ context.Context, d digest.Digest) (content.Info, error) {
	return content.Info{}, fmt.Errorf("%s: %w", d, errdefs.ErrNotFound)
}

func (sink) Writer(context.Context, ...content.WriterOpt) (content.Writer, error) { return lost{}, nil }
func (sink) Walk(context.Context, content.WalkFunc, ...string) error              { return nil }
func (sink) Abort(context.Context, string) error                                  { return nil }
func (sink) Delete(context.Context, digest.Digest) error                          { return nil }
func (sink) Status(context.Context, string) (content.Status, error)               { return content.Status{}, nil }
func (sink) ListStatuses(context.Context, ...string) ([]content.Status, error)    { return nil, nil }
func (sink) Update(_ context.Context, i content.Info, _ ...string) (content.Info, error) {
	return i, nil
}

// lost is a writer that forgets.
type lost struct{}

func (lost) Write(p []byte) (int, error)                                        { return len(p), nil }
func (lost) Close() error                                                       { return nil }
func (lost) Digest() digest.Digest                                              { return "" }
func (lost) Status() (content.Status, error)                                    { return content.Status{}, nil }
func (lost) Truncate(int64) error                                               { return nil }
func (lost) Commit(context.Context, int64, digest.Digest, ...content.Opt) error { return nil }
