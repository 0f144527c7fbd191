package fetch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
)

// maxPeers bounds the peers that one flight asks.
const maxPeers = 3

// The origin is asked again after an error that may pass, this often in all
// and with these pauses, the second twice as long.
const (
	originAttempts = 3
	originPause    = 100 * time.Millisecond
)

// candidate is a source to ask, once.
type candidate struct {
	block.Source
	from from
}

// answer is what an attempt brought.
type answer struct {
	from from
	buf  *buffer
	err  error
}

// ask asks peers and the origin. The next source is asked when the one before
// fails or is late; the first verified block wins and the others are cancelled.
// The origin is the last resort and may just be slow, so it is asked a second
// time for lateness only after half the deadline, and once: that is for a
// connection that died silently.
func (f *Fetcher) ask(ctx context.Context, ref block.Ref) (*buffer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next := f.candidates(ref)
	if len(next) == 0 {
		return nil, fmt.Errorf("%v: no source: %w", ref, errdefs.ErrUnavailable)
	}
	answers := make(chan answer, len(next)+originAttempts) // an attempt that lost never blocks
	running, attempts := 0, 0
	var late, pause <-chan time.Time
	start := func() {
		c := next[0]
		next = next[1:]
		running++
		if c.from == fromOrigin {
			attempts++
			late = time.After(f.deadline(ref) / 2)
		} else {
			late = time.After(f.peers.hedge())
		}
		f.wg.Add(1) // ask runs under a flight, so the count is not zero
		go func() {
			defer f.wg.Done()
			b, err := f.attempt(ctx, c, ref)
			answers <- answer{c.from, b, err}
		}()
	}
	start()
	var errs []error
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%v: %w", ref, errors.Join(append(errs, context.Cause(ctx))...))
		case <-late:
			late = nil
			if len(next) == 0 && attempts == 1 && running > 0 {
				next = f.again(ref)
			}
			if len(next) > 0 && pause == nil {
				f.metrics.hedges.Add(1)
				start()
			}
		case <-pause:
			pause = nil
			start()
		case a := <-answers:
			running--
			if a.err == nil {
				return a.buf, nil
			}
			errs = append(errs, a.err)
			if a.from == fromOrigin && final(a.err) {
				attempts = originAttempts
			}
			switch {
			case len(next) > 0 && pause == nil:
				start()
			case running > 0 || pause != nil:
			case attempts == 0 || attempts >= originAttempts:
				return nil, errors.Join(errs...)
			default:
				next = f.again(ref)
				d := originPause << (attempts - 1)
				pause = time.After(d/2 + rand.N(d))
			}
		}
	}
}

// again returns the origin as the one to ask.
func (f *Fetcher) again(ref block.Ref) []candidate {
	return []candidate{{f.origin(ref.Blob), fromOrigin}}
}

// candidates returns whom to ask, the origin last.
func (f *Fetcher) candidates(ref block.Ref) []candidate {
	var out []candidate
	if f.opts.Upstreams != nil {
		for _, s := range f.opts.Upstreams.Sources(ref) {
			if len(out) < maxPeers {
				out = append(out, candidate{s, fromPeer})
			}
		}
	}
	if f.origin != nil {
		if s := f.origin(ref.Blob); s != nil {
			out = append(out, candidate{s, fromOrigin})
		}
	}
	return out
}

// attempt asks one source and verifies what it gives. A peer gets a third of
// the deadline, so that the origin has time left; the origin gets the rest.
func (f *Fetcher) attempt(ctx context.Context, c candidate, ref block.Ref) (*buffer, error) {
	if c.from == fromPeer {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.deadline(ref)/3)
		defer cancel()
	}
	began := time.Now()
	b := newBuffer(ref.Size)
	p, err := c.ReadBlock(ctx, ref, b.bytes)
	if err != nil {
		b.release()
		return nil, err
	}
	b.bytes = p
	f.metrics.read(c.from, len(p))
	if err := ref.Verify(p); err != nil {
		b.release()
		f.metrics.bad(c.from)
		if blamer, ok := f.opts.Upstreams.(Blamer); ok && c.from == fromPeer {
			blamer.Blame(ref, c.Source, err)
		}
		return nil, err
	}
	if c.from == fromPeer {
		f.peers.observe(time.Since(began))
	}
	return b, nil
}

// final reports whether asking the origin again cannot help, err being what it
// said.
func final(err error) bool {
	return errdefs.IsNotFound(err) || errdefs.IsPermissionDenied(err) || errdefs.IsUnauthorized(err) ||
		errdefs.IsInvalidArgument(err) || errdefs.IsNotImplemented(err)
}
