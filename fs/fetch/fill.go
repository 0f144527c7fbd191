package fetch

import (
	"context"
	"errors"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"golang.org/x/sync/errgroup"
)

// fillPause is how long a layer that could not be filled is left alone: the
// registry is down or there is no room.
const fillPause = 30 * time.Second

// errNoRoom stops the fill of a layer.
var errNoRoom = errors.New("no room for decoded blocks")

// Fill queues the layer for the background, which brings the blocks that are
// missing and seals it. It never waits.
func (l *Layer) Fill() {
	l.fillWanted.Store(true)
	l.fetcher.queue.push(l)
}

// Run fills and seals layers, one after the other, until ctx ends.
func (f *Fetcher) Run(ctx context.Context) error {
	for {
		l := f.queue.pop(ctx)
		if l == nil {
			return nil
		}
		f.tend(ctx, l)
	}
}

// tend fills one layer, if that is wanted, and seals it when it is complete.
// What fails is tried again later, for as long as somebody has the layer open.
func (f *Fetcher) tend(ctx context.Context, l *Layer) {
	if !l.holdOpen() {
		return
	}
	defer l.release()
	if l.fillWanted.Load() && !f.opts.NoFill {
		if err := l.fill(ctx); err != nil {
			if ctx.Err() == nil {
				log.G(ctx).WithError(err).WithField("layer", l.id.Blob).Info("background fill stopped, will go on later")
				f.queue.pushAt(l, time.Now().Add(fillPause))
			}
			return
		}
	}
	flat, err := l.file()
	if err != nil || !flat.Complete() || flat.Sealed() {
		return
	}
	err = flat.Seal(ctx)
	switch {
	case err == nil:
		f.metrics.sealed.Add(1)
	case ctx.Err() != nil:
	case errdefs.IsResourceExhausted(err), errdefs.IsFailedPrecondition(err):
		// It stays on FUSE: sealed files in use have their share of the disk
		// already, or the layer lost a block to eviction just now.
		log.G(ctx).WithError(err).Debug("layer is not sealed")
	default:
		log.G(ctx).WithError(err).Warn("cannot seal layer")
	}
}

// fill brings the missing blocks at the lowest priority. The gate decides how
// many at a time.
func (l *Layer) fill(ctx context.Context) error {
	ctx = WithPriority(ctx, Fill)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(l.fetcher.opts.FillSlots)
	for i := range l.table.Len() {
		if gctx.Err() != nil || !l.wanted() {
			break
		}
		flat, err := l.file()
		if err != nil {
			return errors.Join(err, g.Wait())
		}
		if flat.Has(i) {
			continue
		}
		if l.fetcher.store.FlatRoom() < int64(l.fetcher.opts.FillSlots*l.id.BlockSize) {
			return errors.Join(errNoRoom, g.Wait())
		}
		g.Go(func() error { return l.fillBlock(gctx, i) })
	}
	return g.Wait()
}

func (l *Layer) fillBlock(ctx context.Context, i int) error {
	w, err := l.join(ctx, i)
	if err != nil {
		return err
	}
	defer l.calls.leave(i, w)
	b, err := w.wait(ctx)
	if err != nil {
		return err
	}
	b.release()
	flat, err := l.file()
	if err != nil {
		return err
	}
	if !flat.Has(i) {
		return errNoRoom
	}
	l.fetcher.metrics.filled.Add(1)
	return nil
}
