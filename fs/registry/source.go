package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/errdefs"
	"github.com/containerd/log"

	"github.com/faasnet/faasnet/fs/block"
)

// repository is the block.Source of one repository. All sources of a
// repository are one.
type repository struct {
	c    *Client
	name name

	mu    sync.Mutex // guards blobs
	blobs map[blobKey]*blob
}

type blobKey struct {
	endpoint string
	digest   string
}

// maxBlobs bounds the blobs of a repository of which something is remembered.
const maxBlobs = 1024

func (r *repository) blob(e *endpoint, ref block.Ref) *blob {
	k := blobKey{e.key(), ref.Blob.String()}
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.blobs[k]
	if b == nil {
		if len(r.blobs) >= maxBlobs {
			clear(r.blobs)
		}
		b = &blob{known: e.direct.Load()}
		r.blobs[k] = b
	}
	return b
}

// errBudget ends a call that has used up its budget.
var errBudget = fmt.Errorf("out of time: %w", errdefs.ErrUnavailable)

// ReadBlock implements block.Source.
func (r *repository) ReadBlock(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
	return r.readBlock(ctx, ref, dst, nil)
}

func (r *repository) readBlock(ctx context.Context, ref block.Ref, dst []byte, arrived func(int)) ([]byte, error) {
	if ref.Size <= 0 || ref.Size > block.MaxSection || ref.Offset < 0 || ref.Blob.Validate() != nil {
		return dst, fmt.Errorf("%v: bad reference: %w", ref, errdefs.ErrInvalidArgument)
	}
	if !r.c.enter() {
		return dst, errClosed
	}
	defer r.c.tasks.Done()
	begin := time.Now()
	out := slices.Grow(dst, ref.Size)[:len(dst)+ref.Size]
	err := r.read(ctx, ref, &arrival{p: out[len(dst):], tell: arrived})
	r.c.metrics.blocks.WithLabelValues(result(err)).Inc()
	r.c.metrics.seconds.Observe(time.Since(begin).Seconds())
	if err != nil {
		return dst, fmt.Errorf("%v in %v: %w", ref, r.name, err)
	}
	return out, nil
}

// read goes through the hosts, and again after a while when one of them may
// have an answer then.
func (r *repository) read(ctx context.Context, ref block.Ref, in *arrival) error {
	whole := ctx
	ctx, cancel := context.WithTimeoutCause(ctx, r.c.opts.Budget, errBudget)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(r.c.ctx, func() { stop(errClosed) })() //nolint:contextcheck // Close ends reads too
	ctx = docker.WithScope(ctx, "repository:"+r.name.path+":pull")
	for n := 0; ; n++ {
		err := r.round(ctx, ref, in)
		switch {
		case err == nil:
			return nil
		case whole.Err() != nil:
			return fmt.Errorf("%w: %w", whole.Err(), err)
		case isFinal(err), ctx.Err() != nil, n+1 >= r.c.opts.Attempts:
			return err
		}
		log.G(ctx).WithError(err).WithField("block", ref.String()).Debug("registry: block to be asked again")
		r.c.metrics.retries.Inc()
		if !sleep(ctx, backoff(r.c.opts.Backoff, r.c.opts.MaxBackoff, n)) {
			if whole.Err() != nil {
				return whole.Err()
			}
			return err
		}
	}
}

// round asks each host once, and returns a final error when none is worth
// asking again.
func (r *repository) round(ctx context.Context, ref block.Ref, in *arrival) error {
	ns, err := r.c.namespace(r.name.host) //nolint:contextcheck // what it makes outlives this read
	if err != nil {
		return final{fmt.Errorf("%w: %w", err, errdefs.ErrUnavailable)}
	}
	hosts := r.order(ns.pull(), ref)
	if len(hosts) == 0 {
		return final{fmt.Errorf("no host may serve blobs: %w", errdefs.ErrNotFound)}
	}
	var errs []error
	again := false
	for _, e := range hosts {
		b := r.blob(e, ref)
		a := &attempt{r: r, e: e, b: b, ref: ref}
		var first bool
		if a.p, first = in.room(); first {
			a.grow = func(n int) { in.grow(n, b) }
		}
		err := a.do(ctx)
		if err == nil && len(hosts) > 1 {
			err = ref.Verify(a.p)
		}
		if err == nil {
			e.lane.mark(true)
			return in.settle(a.p)
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			return join(errs)
		}
		switch {
		case isFinal(err), errdefs.IsDataLoss(err):
			b.avoid()
		case !errors.Is(err, errGone) && e.lane.mark(false):
			log.G(ctx).WithError(err).WithField("host", e.Host).Warn("registry does not answer as it should, it is asked again")
		}
		// A blob that is damaged here is so for the next minutes too: the caller may
		// ask again.
		again = again || !isFinal(err) && !errdefs.IsDataLoss(err)
	}
	if err = join(errs); !again && !isFinal(err) {
		err = final{err}
	}
	return err
}

// order puts hosts that work, and are not known to lack the blob, before the
// others.
func (r *repository) order(hosts []*endpoint, ref block.Ref) []*endpoint {
	slices.SortStableFunc(hosts, func(x, y *endpoint) int { return r.rank(x, ref) - r.rank(y, ref) })
	return hosts
}

func (r *repository) rank(e *endpoint, ref block.Ref) int {
	if e.lane.healthy() && !r.blob(e, ref).avoided() {
		return 0
	}
	return 1
}
