package fetch

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/faasnet/faasnet/fs/block"
)

// candidate is a source to ask, once.
type candidate struct {
	block.Source
	from  from
	push  *push // the source, if it is one that sends unasked
	again bool  // it was asked for this block before
}

// attempt is one candidate being asked.
type attempt struct {
	candidate
	f       *Fetcher
	w       *work
	buf     *buffer
	arrival *arrival
	began   time.Time
}

// answer is what an attempt brought.
type answer struct {
	*attempt
	buf *buffer
	err error
}

func (f *Fetcher) newAttempt(c candidate, w *work) *attempt {
	a := &attempt{candidate: c, f: f, w: w, began: time.Now()}
	if c.push != nil {
		a.buf = c.push.buf
	} else {
		a.buf = newBuffer(w.ref.Size)
	}
	_, speaks := c.Source.(block.Streamer)
	a.arrival = w.progress.add(a.buf, w.ref.Size, speaks)
	return a
}

// look returns when to see first whether the source is late: of one that can give
// signs of life it is seen early that it gives none.
func (a *attempt) look(patience time.Duration) time.Duration {
	if _, speaks := a.Source.(block.Streamer); speaks {
		return min(patience, firstSign)
	}
	return patience
}

// wait returns for how long a peer need not be hedged: it lives, and the block
// will be complete soon at the pace it has, or its time is not up. 0 means that it
// is late.
func (a *attempt) wait(patience time.Duration, urgent bool) time.Duration {
	silent, slow, d := a.w.progress.look(a.arrival)
	if silent || urgent && slow && time.Since(a.began) >= patience {
		return 0
	}
	return d
}

// run asks the source and verifies what it gives. A peer gets a third of the
// time, so that the origin has some left; the origin gets the rest, and one that
// sends unasked as long as it likes.
func (a *attempt) run(ctx context.Context) (*buffer, error) {
	f, ref := a.f, a.w.ref
	if a.from == fromPeer && a.push == nil {
		var cancel context.CancelFunc
		limit := f.deadline(ref) / 3
		if a.w.urgency.get() > Relay {
			limit *= patience
		}
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	p, sum, err := a.read(ctx)
	if err == nil {
		f.metrics.read(a.from, len(p))
		if err = ref.Check(len(p), sum); err != nil {
			f.metrics.bad(a.from)
			a.blame(err)
		}
	}
	if err != nil {
		a.w.progress.remove(a.arrival) // before the buffer is free for others
		a.buf.release()
		return nil, err
	}
	if &p[0] != &a.arrival.mem[0] { // the source did not use dst
		copy(a.arrival.mem, p)
	}
	a.buf.bytes = a.arrival.mem
	a.grow(len(p))
	a.w.progress.remove(a.arrival)
	if a.from == fromPeer && a.push == nil {
		f.peers.observe(time.Since(a.began))
	}
	return a.buf, nil
}

// read gets the bytes and their sum. Of a source that streams, each piece is
// shown to the taps first and then hashed, while it is still in the cache.
func (a *attempt) read(ctx context.Context) ([]byte, block.Sum, error) {
	ref, dst := a.w.ref, a.arrival.mem[:0]
	s, streams := a.Source.(block.Streamer)
	if !streams {
		p, err := a.ReadBlock(ctx, ref, dst)
		return p, sha256.Sum256(p), err
	}
	h, hashed := sha256.New(), 0
	p, err := s.StreamBlock(ctx, ref, dst, func(n int) {
		a.grow(n)
		h.Write(a.arrival.mem[hashed:n])
		hashed = n
	})
	if err == nil {
		h.Write(p[hashed:])
	}
	return p, block.Sum(h.Sum(nil)), err
}

// grow says how much has arrived.
func (a *attempt) grow(n int) {
	if a.w.progress.grow(a.arrival, n) && a.f.opts.OnReceive != nil {
		a.f.opts.OnReceive(a.w.ref)
	}
}

// blame says who gave what is not the block.
func (a *attempt) blame(err error) {
	if a.push != nil {
		a.push.by.Corrupt(err)
		return
	}
	if blamer, ok := a.f.opts.Upstreams.(Blamer); ok && a.from == fromPeer {
		blamer.Blame(a.w.ref, a.Source, err)
	}
}
