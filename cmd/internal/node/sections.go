package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/fetch"
	"github.com/faasnet/faasnet/fs/layer"
)

// section reads a metadata or image section, from the store when it is there.
// A section may take longer than the fetcher lets one reader wait, on a slow
// network: then it is joined again, less urgently, which gives the flight more
// time, until ctx ends.
func (n *Node) section(ctx context.Context, ref block.Ref) ([]byte, error) {
	read := ctx
	for {
		p, err := n.fetcher.ReadBlock(read, ref, nil)
		if err == nil {
			return p, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: %w", err, errdefs.ErrUnavailable)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			return nil, err
		}
		read = fetch.WithPriority(ctx, fetch.Relay) //nolint:fatcontext // always of the same ctx
	}
}

func (n *Node) meta(ctx context.Context, info layer.Info) (*layer.Meta, error) {
	p, err := n.section(ctx, info.Meta)
	if err != nil {
		return nil, err
	}
	m, err := layer.ParseMeta(p)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", info.Meta, err)
	}
	if err := info.CheckTable(m.Table); err != nil {
		return nil, fmt.Errorf("%v: %w", info.Meta, err)
	}
	return m, nil
}

func (n *Node) image(ctx context.Context, ref block.Ref) (*layer.Image, error) {
	p, err := n.section(ctx, ref)
	if err != nil {
		return nil, err
	}
	image, err := layer.ParseImage(p)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", ref, err)
	}
	return image, nil
}

// maxPrefetches bounds the sections that claims fetch at a time.
const maxPrefetches = 16

// prefetch starts to bring an image section, which the next mount will need, and
// then the start layer. The fetcher keeps it; when it fails the mount says so.
func (n *Node) prefetch(ref block.Ref) {
	select {
	case n.prefetches <- struct{}{}:
	default:
		return // enough under way, the mount will fetch it
	}
	if !n.background(func(ctx context.Context) {
		layers, err := n.prefetched(ctx, ref)
		<-n.prefetches
		if err != nil {
			log.G(ctx).WithError(err).Info("image section is not here yet, the first mount will try again")
		}
		n.rush(ctx, layers)
	}) {
		<-n.prefetches
	}
}

// prefetched returns the layers that an image section describes, if one may be a
// start layer.
func (n *Node) prefetched(ctx context.Context, ref block.Ref) ([]tape, error) {
	ctx, cancel := context.WithTimeout(ctx, n.mountTimeout)
	defer cancel()
	if !n.starts.any() {
		_, err := n.section(ctx, ref)
		return nil, err
	}
	image, err := n.image(ctx, ref)
	if err != nil {
		return nil, err
	}
	return tapes(image), nil
}
