package registry

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/faasnet/faasnet/fs/block"
)

// attempt reads one block from one endpoint, once.
type attempt struct {
	r    *repository
	e    *endpoint
	b    *blob
	ref  block.Ref
	p    []byte    // to be filled
	grow func(int) // told how much of p is there; nil: nobody
	ran  bool      // the stream that was claimed has got its answer
}

// do makes the attempt. A location that was remembered and does not serve any
// more is asked of the endpoint again, once.
func (a *attempt) do(ctx context.Context) error {
	if a.e.lane.slots.Acquire(ctx, 1) != nil {
		return context.Cause(ctx)
	}
	defer a.e.lane.slots.Release(1)
	for again := true; ; again = false {
		at, s, first, err := a.b.locate(ctx)
		if err != nil {
			return err
		}
		if s != nil {
			return a.spooled(ctx, s, at)
		}
		if err = a.ask(ctx, at, first, nil); err == nil || at == nil || ctx.Err() != nil {
			return err
		}
		a.b.forget(at)
		if !isFinal(err) || !again {
			return err
		}
	}
}

// home is where the endpoint has the blob.
func (a *attempt) home() *url.URL {
	return a.e.url(a.r.name.path, "blobs", a.ref.Blob.String())
}

// ask reads the block from at, or the endpoint itself when at is nil, and
// remembers where that led. First: others wait for what it finds. Claimed: the
// caller has to bring this stream its bytes.
func (a *attempt) ask(ctx context.Context, at *url.URL, first bool, claimed *stream) error {
	q := detach(ctx)
	defer q.release()
	if first {
		defer a.b.found()
	}
	home := a.home()
	resp, at, err := a.follow(q, cmp.Or(at, home)) //nolint:bodyclose // q closes it
	if err != nil {
		return err
	}
	q.body = resp.Body
	if *at == *home {
		at = nil
	}
	a.e.direct.Store(at == nil)
	if resp.StatusCode == http.StatusOK && (a.ref.Offset != 0 || resp.ContentLength != int64(a.ref.Size)) {
		return a.whole(ctx, q, resp, at, claimed)
	}
	if err := checkRange(resp, a.ref); err != nil {
		return err
	}
	a.b.settle(at, nil)
	return a.receive(q, resp, 0)
}

// spooled reads the block from a stream. The first who finds that it has
// stopped short makes it go on.
func (a *attempt) spooled(ctx context.Context, s *stream, at *url.URL) error {
	mine, err := s.read(ctx, a.ref, a.p, true)
	if mine {
		if err = a.ask(ctx, at, false, s); !a.ran {
			s.fail(cmp.Or(err, errGone))
		}
	}
	if errors.Is(err, errGone) {
		a.b.lost(s)
	}
	return err
}

// whole reads the block from an answer with the whole blob, which becomes a
// stream; where the spool has no room, it is read up to the block.
func (a *attempt) whole(ctx context.Context, q *request, resp *http.Response, at *url.URL, claimed *stream) error {
	if err := checkWhole(resp, a.ref); err != nil {
		return err
	}
	s := a.b.adopt(at, func() *stream { return a.r.c.spool.add(a.r, resp.ContentLength) })
	if s == nil {
		return a.receive(q, resp, a.ref.Offset)
	}
	if s != claimed {
		if mine, err := s.read(ctx, a.ref, a.p, true); !mine {
			return err
		}
	}
	a.ran = s == claimed
	s.run(q, resp.Body)
	_, err := s.read(ctx, a.ref, a.p, false)
	return err
}
