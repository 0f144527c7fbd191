package fetch

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

const (
	// rushFailures is how many blocks in a row a rush goes on without.
	rushFailures = 5
	// rushPause is how long it waits after each of them.
	rushPause = time.Second
)

// rush is one Layer.Rush. Its fields are of the loop unless they say otherwise.
type rush struct {
	l       *Layer
	window  window
	running int
	next    time.Time // no block is asked for before
	failed  int       // blocks in a row
	err     error
	ended   chan outcome
	here    chan int    // blocks to decode; holds all
	full    atomic.Bool // what comes is not kept
}

// outcome is how the fetch of one block ended.
type outcome struct {
	number  int
	took    time.Duration
	started bool // the flight was ours
	err     error
}

// Rush brings the blocks of the layer in order, at priority Order, and decodes them
// one at a time, for somebody who is about to read all of them from the first to
// the last. It fetches as many at a time as keep the link busy, limit compressed
// bytes at most, and ends when they are here, or without an error when ctx ends.
// Where several blocks in a row cannot be had it ends with an error, which matches
// errdefs.ErrResourceExhausted when there is no room for more. It returns how many
// blocks it asked for. The caller has the layer open.
func (l *Layer) Rush(ctx context.Context, limit int64) (asked int, err error) {
	most := aheadSlots * l.fetcher.opts.BlobSlots
	r := &rush{l: l, window: newWindow(most), ended: make(chan outcome, most), here: make(chan int, l.table.Len())}
	ctx = WithPriority(ctx, Order)
	decoded := make(chan struct{})
	go func() {
		defer close(decoded)
		for i := range r.here {
			r.decode(ctx, i)
		}
	}()
	over := false
	for i := 0; i < l.table.Len() && r.room(ctx); i++ {
		ref := l.table.Ref(l.id.Blob, i)
		if flat, err := l.file(); err == nil && flat.Has(i) {
			continue
		}
		if l.fetcher.store.Has(ref) {
			r.here <- i
			continue
		}
		if limit -= int64(ref.Size); limit < 0 {
			over = true
			break
		}
		asked++
		r.fetch(ctx, i)
	}
	for r.running > 0 {
		r.note(<-r.ended)
	}
	close(r.here)
	<-decoded
	switch {
	case ctx.Err() != nil:
		return asked, ctx.Err()
	case over || r.full.Load():
		return asked, errNoRoom
	}
	return asked, r.err
}

// room waits until one more block may be fetched. false means that none may.
func (r *rush) room(ctx context.Context) bool {
	for {
		var now <-chan time.Time
		if r.running < r.window.size {
			now = time.After(time.Until(r.next))
		}
		select {
		case o := <-r.ended:
			r.note(o)
		case <-now:
			return r.failed < rushFailures && !r.full.Load() && ctx.Err() == nil
		case <-ctx.Done():
			return false
		}
	}
}

// note takes the end of a fetch.
func (r *rush) note(o outcome) {
	r.running--
	switch {
	case errors.Is(o.err, errClosed):
		r.failed, r.err, r.next = rushFailures, o.err, time.Time{}
	case o.err != nil:
		r.failed++
		r.err, r.next = o.err, time.Now().Add(rushPause)
	default:
		r.failed, r.err = 0, nil
		if o.started {
			r.window.took(o.took)
		}
		r.here <- o.number
	}
}

// fetch begins to bring one block into the store, which ends with ctx.
func (r *rush) fetch(ctx context.Context, i int) {
	f, ref, began := r.l.fetcher, r.l.table.Ref(r.l.id.Blob, i), time.Now()
	r.running++
	if next := began.Add(r.window.pace()); next.After(r.next) {
		r.next = next
	}
	w, started, err := f.flights.join(ctx, ref.Sum, ref, Order, f.fly)
	if err != nil {
		r.ended <- outcome{number: i, err: err}
		return
	}
	r.l.stats.ahead.Add(1)
	go func() {
		b, err := w.wait(ctx)
		f.flights.leave(ref.Sum, w)
		if err == nil {
			b.release()
			r.l.stats.fetched(ref.Size)
		}
		r.ended <- outcome{i, time.Since(began), started, err}
	}()
}

// decode decodes one block that has come, if there is room for that.
func (r *rush) decode(ctx context.Context, i int) {
	l := r.l
	if ctx.Err() != nil || r.full.Load() {
		return
	}
	if !l.fetcher.near(l.table.Ref(l.id.Blob, i)) {
		r.full.Store(true)
		return
	}
	flat, err := l.file()
	if err != nil || flat.Has(i) || l.fetcher.store.FlatRoom() < int64(rushRoom*l.id.BlockSize) {
		return
	}
	w, _, err := l.join(ctx, i)
	if err != nil {
		return
	}
	defer l.calls.leave(i, w)
	if b, err := w.wait(ctx); err == nil {
		b.release()
	}
}

// rushRoom is how many decoded blocks there must be room for.
const rushRoom = 4
