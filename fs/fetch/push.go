package fetch

import (
	"context"
	"fmt"
	"sync"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
)

// push is a block that a peer sends unasked: the Sink that it comes in by, and
// the Streamer from which its flight reads it.
type push struct {
	f   *Fetcher
	w   *work
	ref block.Ref
	buf *buffer
	mem []byte // of buf, as long as the block
	by  block.Sender

	mu       sync.Mutex // guards what follows; no other lock is taken under it
	n        int
	ended    bool
	err      error
	unwanted bool
	step     chan struct{} // holds a token when there may be news
}

// Offer begins the flight of a block that somebody sends unasked. It does not
// wait. Readers who want the block meanwhile join; should the sender fail or be
// late they get it from elsewhere. The error matches errdefs.ErrAlreadyExists
// when the block is stored or in flight. The caller owes the Sink's End.
func (f *Fetcher) Offer(ctx context.Context, ref block.Ref, by block.Sender) (block.Sink, error) {
	if err := checkSize(ref); err != nil {
		return nil, err
	}
	if f.store.Has(ref) {
		return nil, fmt.Errorf("fetch: %v is stored: %w", ref, errdefs.ErrAlreadyExists)
	}
	p := &push{f: f, ref: ref, by: by, step: make(chan struct{}, 1)}
	ready := make(chan struct{})
	w, started, err := f.flights.join(WithPriority(ctx, Fill), ref.Sum, ref, Fill, func(ctx context.Context, w *work) {
		<-ready
		f.land(ctx, w, p)
	})
	if err != nil {
		return nil, err
	}
	if !started {
		f.flights.leave(ref.Sum, w)
		return nil, fmt.Errorf("fetch: %v is in flight: %w", ref, errdefs.ErrAlreadyExists)
	}
	p.w = w
	p.buf = newBuffer(ref.Size).retain() // held by the sender until End, and by the flight's attempt
	p.mem = p.buf.bytes[:ref.Size:ref.Size]
	w.offered.Store(true)
	close(ready)
	return p, nil
}

// Buffer is that of block.Sink.
func (p *push) Buffer() []byte { return p.mem }

// Arrived is that of block.Sink.
func (p *push) Arrived(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n = n
	p.wake()
	return !p.unwanted
}

// End is that of block.Sink.
func (p *push) End(err error) {
	p.mu.Lock()
	if err == nil && p.n != p.ref.Size {
		err = fmt.Errorf("fetch: %v ended after %d bytes: %w", p.ref, p.n, errdefs.ErrDataLoss)
	}
	p.ended, p.err = true, err
	p.wake()
	p.mu.Unlock()
	p.buf.release()
	p.f.flights.leave(p.ref.Sum, p.w)
}

// wake is called with mu held.
func (p *push) wake() {
	select {
	case p.step <- struct{}{}:
	default:
	}
}

// ReadBlock is that of block.Source. A push is only ever streamed.
func (p *push) ReadBlock(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
	return p.StreamBlock(ctx, ref, dst, func(int) {})
}

// StreamBlock is that of block.Streamer. dst is Buffer.
func (p *push) StreamBlock(ctx context.Context, ref block.Ref, dst []byte, arrived func(int)) ([]byte, error) {
	for {
		select {
		case <-p.step:
		case <-ctx.Done():
			p.mu.Lock()
			p.unwanted = true
			p.mu.Unlock()
			return dst, ctx.Err()
		}
		p.mu.Lock()
		n, ended, err := p.n, p.ended, p.err
		p.mu.Unlock()
		arrived(n)
		switch {
		case err != nil:
			return dst, err
		case ended:
			return dst[:len(dst)+ref.Size], nil
		}
	}
}

// land is the flight of a block that is being pushed.
func (f *Fetcher) land(ctx context.Context, w *work, p *push) {
	var once sync.Once
	b, err := f.ask(ctx, w, p, func(prio Priority) {
		if prio <= Relay {
			once.Do(p.by.Urge)
		}
	})
	f.finish(ctx, w, b, err)
}
