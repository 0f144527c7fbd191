package node

import (
	"context"

	"github.com/faasnet/faasnet/fs"
	"github.com/faasnet/faasnet/fs/fetch"
)

// driver mounts file trees in a way that this kernel can do. The one there is
// uses EROFS (package fs); one for kernels without it would serve the same
// indexes through FUSE.
type driver interface {
	Mount(ctx context.Context, image []byte, files []fs.File) (tree, error)
	Run(ctx context.Context) error
	InUse() bool
	Close() error
}

// tree is a mounted file tree.
type tree interface {
	Dir() string
	Local() bool // no daemon in the path of reads
	Close() error
}

type erofs struct{ *fs.FS }

func (e erofs) Mount(ctx context.Context, image []byte, files []fs.File) (tree, error) {
	m, err := e.FS.Mount(ctx, image, files)
	if err != nil { // a nil *Mount must not become a tree
		return nil, err
	}
	return m, nil
}

// device is a layer as fs wants it.
type device struct{ *fetch.Layer }

func (d device) View(ctx context.Context, off int64, n int) (fs.Span, error) {
	s, err := d.Layer.View(ctx, off, n)
	return fs.Span(s), err
}
