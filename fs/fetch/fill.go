package fetch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"golang.org/x/sync/errgroup"
)

// fillPause is how long a layer that could not be filled is left alone: the
// registry is down or there is no room.
const fillPause = 30 * time.Second

// sealPause is how long a layer waits that would be sealed if there were room.
const sealPause = time.Minute

// errNoRoom stops the fill of a layer, and a rush.
var errNoRoom = fmt.Errorf("no room for more blocks: %w", errdefs.ErrResourceExhausted)

// Fill queues the layer for the background, which brings the blocks that are
// missing. It never waits.
func (l *Layer) Fill() {
	if !l.fetcher.opts.NoFill {
		l.fetcher.fills.push(l)
	}
}

// Run fills layers, one after the other, and seals those that are complete,
// until ctx ends.
func (f *Fetcher) Run(ctx context.Context) error {
	var g errgroup.Group
	g.Go(func() error { return f.work(ctx, &f.fills, f.fill) })
	g.Go(func() error { return f.work(ctx, &f.seals, f.seal) })
	return g.Wait()
}

// work does do for each layer of q that somebody has open, until ctx ends.
func (f *Fetcher) work(ctx context.Context, q *queue, do func(context.Context, *Layer) (again time.Duration)) error {
	for {
		l := q.pop(ctx)
		if l == nil {
			return nil
		}
		if !l.holdOpen() {
			continue
		}
		if again := do(ctx, l); again > 0 && l.wanted() {
			q.pushAt(l, time.Now().Add(again))
		}
		if err := l.release(); err != nil {
			log.G(ctx).WithError(err).Warn("cannot close layer")
		}
	}
}

// fill fills one layer. What fails is tried again later, but not for a layer that
// has been closed or belongs to no image any more.
func (f *Fetcher) fill(ctx context.Context, l *Layer) (again time.Duration) {
	ctx, done := l.whileOpen(ctx)
	defer done()
	err := l.fill(ctx)
	if err == nil || ctx.Err() != nil || f.origin != nil && f.origin(l.id.Blob) == nil {
		return 0
	}
	log.G(ctx).WithError(err).WithField("layer", l.id.Blob).Info("background fill stopped, will go on later")
	return fillPause
}

// seal seals a layer that is complete.
func (f *Fetcher) seal(ctx context.Context, l *Layer) (again time.Duration) {
	flat, err := l.file()
	if err != nil || !flat.Complete() || flat.Sealed() {
		return 0
	}
	err = flat.Seal(ctx)
	switch {
	case err == nil:
		f.metrics.sealed.Add(1)
	case ctx.Err() != nil:
	case errdefs.IsFailedPrecondition(err): // lost a block to eviction just now
	case errdefs.IsResourceExhausted(err): // sealed files in use have their share of the disk
		return sealPause
	default:
		log.G(ctx).WithError(err).Warn("cannot seal layer, it stays behind the daemon")
	}
	return 0
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
	if err := ctx.Err(); err != nil { // another block failed while this one waited for its turn
		return err
	}
	w, _, err := l.join(ctx, i)
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
