package fetch

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
)

// tap is a block.Tap. It reads from one attempt of the flight for as long as
// that has more, and goes on with another one only where that agrees in what
// was handed out before.
type tap struct {
	f       *Fetcher
	w       *work
	wanting bool // joined, else only watching
	news    chan struct{}
	wish    *block.Wish
	risen   <-chan struct{} // the wish is more urgent now

	n       int       // bytes handed out
	cur     *arrival  // they are from
	foreign *arrival  // disagrees
	held    []*buffer // of what was handed out, until Close
}

// Open returns a stored block as a file of its own, verified, which the caller
// closes. errdefs.ErrNotFound says that it is not stored.
func (f *Fetcher) Open(ctx context.Context, ref block.Ref) (*os.File, error) {
	return f.store.Open(ctx, ref)
}

// Tap reads a block piece by piece while it arrives. It joins the flight of the
// block, or starts one at priority Relay, or lower where block.WishOf(ctx) is less
// urgent. A block that is stored comes from the store.
func (f *Fetcher) Tap(ctx context.Context, ref block.Ref) (block.Tap, error) {
	if err := checkSize(ref); err != nil {
		return nil, err
	}
	wish := block.WishOf(ctx)
	u, risen := wish.Urgency()
	w, _, err := f.flights.join(WithPriority(ctx, relayed(u)), ref.Sum, ref, relayed(u), f.fly)
	if err != nil {
		return nil, err
	}
	if w.ref.Size != ref.Size {
		f.flights.leave(ref.Sum, w)
		return nil, fmt.Errorf("fetch: %v has %d bytes, want %d: %w", ref, w.ref.Size, ref.Size, errdefs.ErrDataLoss)
	}
	return &tap{f: f, w: w, wanting: true, news: w.progress.watch(), wish: wish, risen: risen}, nil
}

// Watch is Tap for one who does not want the block so much that a flight should
// go on for it. errdefs.ErrNotFound says that there is no flight.
func (f *Fetcher) Watch(ref block.Ref) (block.Tap, error) {
	w := f.flights.watch(ref.Sum)
	if w == nil {
		return nil, fmt.Errorf("fetch: %v is not in flight: %w", ref, errdefs.ErrNotFound)
	}
	if w.ref.Size != ref.Size {
		f.flights.unwatch(w)
		return nil, fmt.Errorf("fetch: %v has %d bytes, want %d: %w", ref, w.ref.Size, ref.Size, errdefs.ErrDataLoss)
	}
	return &tap{f: f, w: w, news: w.progress.watch()}, nil
}

// Next is that of block.Tap.
func (t *tap) Next(ctx context.Context) ([]byte, error) {
	for {
		select {
		case <-t.w.done:
			return t.rest()
		default:
		}
		if p := t.more(); p != nil {
			return p, nil
		}
		select {
		case <-t.w.done:
		case <-t.news:
		case <-t.risen:
			var u block.Urgency
			u, t.risen = t.wish.Urgency()
			t.w.urgency.raise(relayed(u))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// more returns bytes that have arrived of a block that is not yet verified.
func (t *tap) more() []byte {
	p := &t.w.progress
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.cur != nil && t.cur.n > t.n {
		return t.take(t.cur, t.cur.n)
	}
	for _, a := range p.arrivals {
		if a == t.cur || a == t.foreign || a.n <= t.n {
			continue
		}
		if t.cur != nil && !bytes.Equal(t.cur.mem[:t.n], a.mem[:t.n]) {
			t.foreign = a
			continue
		}
		t.held = append(t.held, a.buf.retain())
		t.cur = a
		return t.take(a, a.n)
	}
	return nil
}

func (t *tap) take(a *arrival, n int) []byte {
	p := a.mem[t.n:n:n]
	t.n = n
	return p
}

// rest returns what is missing of a flight that has ended.
func (t *tap) rest() ([]byte, error) {
	if t.w.err != nil {
		// Only the text: the error of a connection that ended has io.EOF in it, and
		// must not be taken for the end of a block that is whole.
		return nil, fmt.Errorf("fetch: %v: %s: %w", t.w.ref, t.w.err.Error(), errdefs.ErrAborted)
	}
	b := t.w.buf // held by the work for as long as we are in it
	if t.cur != nil && t.cur.buf != b && !bytes.Equal(t.cur.mem[:t.n], b.bytes[:t.n]) {
		return nil, fmt.Errorf("fetch: %v: the first %d bytes were wrong: %w", t.w.ref, t.n, errdefs.ErrAborted)
	}
	p := b.bytes[t.n:len(b.bytes):len(b.bytes)]
	if len(p) == 0 {
		return nil, io.EOF
	}
	t.n = len(b.bytes)
	t.cur = nil // what follows is the end
	return p, nil
}

// Close is that of block.Tap.
func (t *tap) Close() {
	t.w.progress.unwatch(t.news)
	for _, b := range t.held {
		b.release()
	}
	t.held, t.cur, t.foreign = nil, nil, nil
	if t.wanting {
		t.f.flights.leave(t.w.ref.Sum, t.w)
	} else {
		t.f.flights.unwatch(t.w)
	}
}
