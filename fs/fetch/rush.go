package fetch

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/faasnet/faasnet/fs/block"
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
	origin  line
	peers   line
	running int
	pause   time.Time // after a failure; no block is asked for before
	failed  int       // blocks in a row
	err     error
	ended   chan outcome
	here    chan int    // blocks to decode; holds all
	full    atomic.Bool // what comes is not kept
}

// line is what a rush has under way from the origin, or from peers.
type line struct {
	window  window
	running int
	next    time.Time // no block is asked for before
}

// peerWindow is how many blocks a rush asks peers for at a time. How long one of
// them takes says little of the way to the peer: it may be pushed at the same
// moment, or be one that the peer itself waits for. With 8, what was read on demand
// meanwhile took twice as long in a fleet of 16 as with 2, and nobody was ready
// sooner unless a round trip was 20 ms (cmd/internal/sim, TestStartLayerIsFlat).
const peerWindow = 4

// outcome is how the fetch of one block ended.
type outcome struct {
	number  int
	line    *line
	took    time.Duration
	started bool // the flight was ours
	err     error
}

// Rush brings the blocks of the layer in order, at priority Order, and decodes them
// one at a time, for somebody who is about to read all of them from the first to
// the last. It fetches as many at a time as keep the link busy, limit compressed
// bytes at most, and ends when they are here or, with its error, when ctx ends. A
// block that cannot be had is left out; after several in a row Rush ends with an
// error. One that matches errdefs.ErrResourceExhausted says that there is no room
// for more. asked is how many blocks it asked for. The caller has the layer open.
func (l *Layer) Rush(ctx context.Context, limit int64) (asked int, err error) {
	most := aheadSlots * l.fetcher.opts.BlobSlots
	r := &rush{
		l: l, origin: line{window: newWindow(most)}, peers: line{window: window{size: min(peerWindow, most)}},
		ended: make(chan outcome, 2*most), here: make(chan int, l.table.Len()),
	}
	ctx = WithPriority(ctx, Order)
	decoded := make(chan struct{})
	go func() {
		defer close(decoded)
		for i := range r.here {
			r.decode(ctx, i)
		}
	}()
	over := false
	for i := range l.table.Len() {
		ref := l.table.Ref(l.id.Blob, i)
		line := r.line(ref)
		if !r.room(ctx, line) {
			break
		}
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
		r.fetch(ctx, i, line)
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

// line returns where a block will come from, as it looks now.
func (r *rush) line(ref block.Ref) *line {
	if up := r.l.fetcher.opts.Upstreams; up != nil && len(up.Sources(ref)) > 0 {
		return &r.peers
	}
	return &r.origin
}

// room waits until one more block may be fetched over a line. false means that
// none may.
func (r *rush) room(ctx context.Context, l *line) bool {
	for {
		var now <-chan time.Time
		if l.running < l.window.size {
			at := l.next
			if r.pause.After(at) {
				at = r.pause
			}
			now = time.After(time.Until(at))
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
	o.line.running--
	switch {
	case errors.Is(o.err, errClosed):
		r.failed, r.err, r.pause = rushFailures, o.err, time.Time{}
	case o.err != nil:
		r.failed++
		r.err, r.pause = o.err, time.Now().Add(rushPause)
	default:
		r.failed, r.err = 0, nil
		if o.started && o.line == &r.origin {
			r.origin.window.took(o.took)
		}
		r.here <- o.number
	}
}

// fetch begins to bring one block into the store, which ends with ctx.
func (r *rush) fetch(ctx context.Context, i int, l *line) {
	f, ref, began := r.l.fetcher, r.l.table.Ref(r.l.id.Blob, i), time.Now()
	r.running++
	l.running++
	l.next = began.Add(l.window.pace())
	w, started, err := f.flights.join(ctx, ref.Sum, ref, Order, f.fly)
	if err != nil {
		r.ended <- outcome{number: i, line: l, err: err}
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
		r.ended <- outcome{i, l, time.Since(began), started, err}
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

// Missing counts the blocks of the layer that are not on local disk, decoded or as
// they came.
func (l *Layer) Missing() (n int) {
	flat, err := l.file()
	for i := range l.table.Len() {
		if (err != nil || !flat.Has(i)) && !l.fetcher.near(l.table.Ref(l.id.Blob, i)) {
			n++
		}
	}
	return n
}
