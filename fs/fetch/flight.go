package fetch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"

	"github.com/faasnet/faasnet/fs/block"
)

// get returns the block, verified and held for the caller. u is the urgency of
// the caller, who may raise it while get waits.
func (f *Fetcher) get(ctx context.Context, ref block.Ref, u *urgency) (*buffer, error) {
	if err := checkSize(ref); err != nil {
		return nil, err
	}
	for {
		w, started, err := f.flights.join(ctx, ref.Sum, ref, u.get(), f.fly)
		if err != nil {
			return nil, err
		}
		stop := u.follow(w.urgency.raise)
		b, err := w.wait(ctx)
		stop()
		f.flights.leave(ref.Sum, w)
		switch {
		case err == nil && len(b.bytes) == ref.Size:
			return b, nil
		case err == nil:
			b.release()
			return nil, fmt.Errorf("fetch: %v has %d bytes, want %d: %w", ref, w.ref.Size, ref.Size, errdefs.ErrDataLoss)
		case ctx.Err() != nil:
			return nil, fmt.Errorf("fetch: %v: %w", ref, ctx.Err())
		case started || w.ref == ref && !w.offered.Load() && !mayAgain(ctx, err):
			return nil, fmt.Errorf("fetch: %w", err)
		}
	}
}

// mayAgain reports whether somebody who joined work that failed with err has
// reason to start it anew: it ran out of its own time, which began earlier, and
// there is enough left of the time of ctx. Work for another reference may also
// have looked in the wrong place; that is for the caller to see.
func mayAgain(ctx context.Context, err error) bool {
	end, ok := ctx.Deadline()
	return errors.Is(err, context.DeadlineExceeded) && (!ok || time.Until(end) > grace)
}

// near reports whether a block is stored, or will be when its flight ends.
func (f *Fetcher) near(ref block.Ref) bool {
	if w := f.flights.watch(ref.Sum); w != nil {
		f.flights.unwatch(w)
		return true
	}
	return f.store.Has(ref)
}

// fly is one flight. It looks into the store once more: the block may have come
// between the caller's look and join.
func (f *Fetcher) fly(ctx context.Context, w *work) {
	b := newBuffer(w.ref.Size)
	p, err := f.store.ReadBlock(ctx, w.ref, b.bytes)
	if err == nil {
		b.bytes = p
		f.metrics.read(fromStore, w.ref.Size)
		f.flights.publish(w.ref.Sum, w, b, nil)
		return
	}
	b.release()
	b, err = f.fromSources(ctx, w)
	f.finish(ctx, w, b, err)
}

// finish gives everybody what the flight brought, and keeps it.
func (f *Fetcher) finish(ctx context.Context, w *work, b *buffer, err error) {
	f.metrics.flight(err)
	f.flights.publish(w.ref.Sum, w, b, err)
	if err != nil {
		return
	}
	// The readers have the block; only those who come later wait for the disk.
	if err := f.store.Put(context.WithoutCancel(ctx), w.ref, b.bytes); err != nil {
		f.notKept(ctx, err)
	}
}

// fromSources asks for the block when a slot is free.
func (f *Fetcher) fromSources(ctx context.Context, w *work) (*buffer, error) {
	t := newTicket(w.ref, w.urgency.get())
	stop := w.urgency.follow(func(p Priority) { f.gate.raise(t, p) })
	err := f.gate.enter(ctx, t)
	stop()
	if err != nil {
		return nil, err
	}
	defer f.gate.leave(t)
	return f.ask(ctx, w, nil, func(p Priority) { f.gate.raise(t, p) })
}

// ask runs a race for the block within the time that a flight has. first, if
// any, is asked before all others. raise is told of the flight's urgency.
func (f *Fetcher) ask(ctx context.Context, w *work, first *push, raise func(Priority)) (*buffer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := time.AfterFunc(patience*f.opts.Deadline, func() { cancel(context.DeadlineExceeded) })
	defer limit.Stop()
	end := time.Now().Add(patience * f.opts.Deadline)
	wish := block.NewWish(w.urgency.get().urgency())
	ctx = block.WithWish(ctx, wish)
	stop := w.urgency.follow(func(p Priority) {
		raise(p)
		wish.Raise(p.urgency())
		if p <= Relay {
			limit.Reset(min(time.Until(end), f.deadline(w.ref)))
		}
	})
	defer stop()
	r := &race{f: f, w: w}
	return r.run(ctx, first)
}

// patience is how many deadlines a flight may take for which nobody waits. It
// gets what is left of one when somebody comes to wait.
const patience = 4

// deadline is how long a reader waits for ref. A section is not read by a
// container that hangs meanwhile, and may be 100 times as large as a block.
func (f *Fetcher) deadline(ref block.Ref) time.Duration {
	if ref.Number == block.Section {
		return patience * f.opts.Deadline
	}
	return f.opts.Deadline
}

func checkSize(ref block.Ref) error {
	if ref.Size < 1 || ref.Size > block.MaxSection {
		return fmt.Errorf("fetch: %v of %d bytes: %w", ref, ref.Size, errdefs.ErrInvalidArgument)
	}
	return nil
}

// notKept says that something could not be cached. It is served all the same.
func (f *Fetcher) notKept(ctx context.Context, err error) {
	f.metrics.notKept.Add(1)
	if f.full.due(time.Now()) {
		log.G(ctx).WithError(err).Warn("cannot keep blocks on disk, serving them without caching; more of these within a minute are not logged")
	}
}
