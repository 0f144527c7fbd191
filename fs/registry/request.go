package registry

import (
	"context"
	"io"
	"time"
)

// request is one request that ends with the caller's context, unless a stream
// takes it over.
type request struct {
	ctx    context.Context //nolint:containedctx // the request's own, cut loose from the call's
	cancel context.CancelCauseFunc
	unlink func() bool   // the caller's context means nothing any more
	body   io.ReadCloser // nil before there is an answer
	kept   bool          // by a stream, which cancels and closes
}

type deadlineKey struct{}

// detach makes a request of a call. Its context has no deadline of its own;
// deadline tells the call's.
func detach(ctx context.Context) *request {
	base := context.WithoutCancel(ctx)
	if t, ok := ctx.Deadline(); ok {
		base = context.WithValue(base, deadlineKey{}, t)
	}
	q := &request{}
	q.ctx, q.cancel = context.WithCancelCause(base)
	q.unlink = context.AfterFunc(ctx, func() { q.cancel(context.Cause(ctx)) })
	return q
}

// deadline returns when the call that ctx belongs to ends.
func deadline(ctx context.Context) (time.Time, bool) {
	if t, ok := ctx.Value(deadlineKey{}).(time.Time); ok {
		return t, true
	}
	return ctx.Deadline()
}

// keep unties the request from the call; false when the call has ended.
func (q *request) keep() bool {
	q.kept = q.unlink()
	return q.kept
}

// release ends the request, unless it is kept.
func (q *request) release() {
	if q.kept {
		return
	}
	q.unlink()
	q.cancel(nil)
	if q.body != nil {
		_ = q.body.Close()
	}
}
