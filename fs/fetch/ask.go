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

// race is one flight's search for its block: who is being asked and who is next.
type race struct {
	f *Fetcher
	w *work

	next    []candidate
	running []*attempt
	origins int // attempts at the origin
	answers chan answer
	errs    []error

	late, pause, last <-chan time.Time
}

// run asks peers and the origin. The next source is asked when the one before
// fails or is late; the first verified block wins and the others are cancelled.
// A peer that sends at a good pace or says that it waits itself is not late, but
// whatever it says the origin is asked after a third of the deadline, if somebody
// waits. The origin
// is the last resort and may just be slow, so it is asked a second time for
// lateness only after half the deadline, and once: that is for a connection that
// died silently.
func (r *race) run(ctx context.Context, first *push) (*buffer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ref := r.w.ref
	r.next = r.f.candidates(ref)
	if first != nil {
		r.next = append([]candidate{{Source: first, from: fromPeer, push: first}}, r.next...)
	}
	if len(r.next) == 0 {
		return nil, fmt.Errorf("%v: no source: %w", ref, errdefs.ErrUnavailable)
	}
	r.answers = make(chan answer, len(r.next)+originAttempts) // an attempt that lost never blocks
	r.last = time.After(r.f.deadline(ref) / 3)
	r.start(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%v: %w", ref, errors.Join(append(r.errs, context.Cause(ctx))...))
		case <-r.late:
			r.hedge(ctx)
		case <-r.last:
			r.lastResort(ctx)
		case <-r.pause:
			r.pause = nil
			r.start(ctx)
		case a := <-r.answers:
			if r.ended(a) {
				return a.buf, nil
			}
			if !r.goOn(ctx, a) {
				return nil, errors.Join(r.errs...)
			}
		}
	}
}

// start asks the next source.
func (r *race) start(ctx context.Context) {
	c := r.next[0]
	r.next = r.next[1:]
	a := r.f.newAttempt(c, r.w)
	r.running = append(r.running, a)
	if c.from == fromOrigin {
		r.origins++
		r.late = time.After(r.f.deadline(r.w.ref) / 2)
	} else {
		r.late = time.After(a.look(r.f.peers.hedge()))
	}
	r.f.wg.Add(1) // we run under a flight, so the count is not zero
	go func() {
		defer r.f.wg.Done()
		b, err := a.run(ctx)
		r.answers <- answer{a, b, err}
	}()
}

// urgent reports whether somebody waits for the block.
func (r *race) urgent() bool { return r.w.urgency.get() <= Relay }

// alone reports whether the block is being pushed and nobody asked for it: then
// there is no reason to look elsewhere.
func (r *race) alone() bool { return r.w.offered.Load() && r.f.flights.wanted(r.w) <= 1 }

// hedge asks one more source if the one asked last is late indeed.
func (r *race) hedge(ctx context.Context) {
	r.late = nil
	if n := len(r.running); n > 0 {
		a, patience := r.running[n-1], r.f.peers.hedge()
		if a.from == fromPeer {
			if d := a.wait(patience, r.urgent()); d > 0 {
				r.late = time.After(d)
				return
			}
			if r.alone() {
				r.late = time.After(patience)
				return
			}
		}
	}
	if len(r.next) == 0 && r.origins == 1 && len(r.running) > 0 {
		r.next = r.again()
	}
	if len(r.next) > 0 && r.pause == nil {
		r.f.metrics.hedges.Add(1)
		r.start(ctx)
	}
}

// lastResort asks the origin, if that has not been done.
func (r *race) lastResort(ctx context.Context) {
	r.last = nil
	n := len(r.next)
	switch {
	case n == 0 || r.next[n-1].from != fromOrigin || r.pause != nil:
	case r.alone() || !r.urgent():
		r.last = time.After(r.f.deadline(r.w.ref) / 3)
	default:
		r.f.metrics.hedges.Add(1)
		r.next = r.next[n-1:]
		r.start(ctx)
	}
}

// ended takes an attempt off the list, and reports whether it won. Then those
// who were asked before and still have not answered lost.
func (r *race) ended(a answer) bool {
	judge, _ := r.f.opts.Upstreams.(Judge)
	for i, o := range r.running {
		if o == a.attempt {
			r.running = append(r.running[:i], r.running[i+1:]...)
			break
		}
		if a.err == nil && o.from == fromPeer && judge != nil {
			judge.Late(r.w.ref, o.Source)
		}
	}
	return a.err == nil
}

// goOn does what is to be done after a failure. A peer that gave up a block it had
// begun to send looks for it elsewhere, or finds it bad: it is asked once more,
// or all below it would turn to the origin. false means nothing: the block
// cannot be had. A peer that is sending the block already, unasked, tells nothing
// new: whoever comes after it is asked when that is late still.
func (r *race) goOn(ctx context.Context, a answer) bool {
	r.errs = append(r.errs, a.err)
	if a.from == fromOrigin && final(a.err) {
		r.origins = originAttempts
	}
	if a.from == fromPeer && a.push == nil && !a.again && errdefs.IsAborted(a.err) {
		c := a.candidate
		c.again = true
		r.next = append([]candidate{c}, r.next...)
	}
	switch {
	case a.push != nil && r.alone():
		return false
	case len(r.running) > 0 && errdefs.IsAlreadyExists(a.err):
		r.late = time.After(r.f.peers.hedge())
	case len(r.next) > 0 && r.pause == nil:
		r.start(ctx)
	case len(r.running) > 0 || r.pause != nil:
	case r.origins == 0 || r.origins >= originAttempts:
		return false
	default:
		r.next = r.again()
		d := originPause << (r.origins - 1)
		r.pause = time.After(d/2 + rand.N(d))
	}
	return true
}

// again returns the origin as the one to ask.
func (r *race) again() []candidate {
	return []candidate{{Source: r.f.origin(r.w.ref.Blob), from: fromOrigin}}
}

// candidates returns whom to ask, the origin last.
func (f *Fetcher) candidates(ref block.Ref) []candidate {
	var out []candidate
	if f.opts.Upstreams != nil {
		for _, s := range f.opts.Upstreams.Sources(ref) {
			if len(out) < maxPeers {
				out = append(out, candidate{Source: s, from: fromPeer})
			}
		}
	}
	if f.origin != nil {
		if s := f.origin(ref.Blob); s != nil {
			out = append(out, candidate{Source: s, from: fromOrigin})
		}
	}
	return out
}

// final reports whether asking the origin again cannot help, err being what it
// said.
func final(err error) bool {
	return errdefs.IsNotFound(err) || errdefs.IsPermissionDenied(err) || errdefs.IsUnauthorized(err) ||
		errdefs.IsInvalidArgument(err) || errdefs.IsNotImplemented(err)
}
