package registry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
)

// share is how long a source of Any but the last may take where the context has
// no deadline: one attempt at a host that does not answer, and a second.
const share = 20 * time.Second

// Any is the same blobs under several names: repositories that share layers,
// each with its own credentials. A block is read from the first source that
// gives it, the one that gave the last one before the others; one whose
// repository or credentials are gone costs one failed request every 30 s.
func Any(sources ...block.Source) block.Source {
	if len(sources) == 1 {
		return sources[0]
	}
	return &anySource{sources: sources, bad: make([]time.Time, len(sources))}
}

type anySource struct {
	sources []block.Source

	mu   sync.Mutex  // guards all below
	last int         // which gave the last block
	bad  []time.Time // asked last until then
}

// order returns the indices of the sources as they are to be asked.
func (a *anySource) order() []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	var good, bad []int
	for i := range a.sources {
		j := (a.last + i) % len(a.sources)
		if now.Before(a.bad[j]) {
			bad = append(bad, j)
		} else {
			good = append(good, j)
		}
	}
	return append(good, bad...)
}

// ReadBlock implements block.Source.
func (a *anySource) ReadBlock(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
	return a.readBlock(ctx, ref, dst, nil)
}

// readBlock ends with the first source that fails after it has told of bytes:
// those of another one may differ.
func (a *anySource) readBlock(ctx context.Context, ref block.Ref, dst []byte, arrived func(int)) ([]byte, error) {
	if len(a.sources) == 0 {
		return dst, fmt.Errorf("%v: no repository: %w", ref, errdefs.ErrNotFound)
	}
	order := a.order()
	var errs []error
	told := false
	read := func(ctx context.Context, src block.Source) ([]byte, error) {
		if s, ok := src.(block.Streamer); ok && arrived != nil {
			return s.StreamBlock(ctx, ref, dst, func(n int) {
				told = told || n > 0
				arrived(n)
			})
		}
		return src.ReadBlock(ctx, ref, dst)
	}
	for n, i := range order {
		out, err := a.ask(ctx, i, len(order)-n-1, read)
		if err == nil {
			a.mu.Lock()
			a.last, a.bad[i] = i, time.Time{}
			a.mu.Unlock()
			return out, nil
		}
		if ctx.Err() != nil {
			return dst, err
		}
		errs = append(errs, err)
		a.mu.Lock()
		a.bad[i] = time.Now().Add(forgive)
		a.mu.Unlock()
		if told {
			break
		}
	}
	return dst, join(errs)
}

// ask asks one source, which leaves time for the others that remain.
func (a *anySource) ask(ctx context.Context, i, remain int, read func(context.Context, block.Source) ([]byte, error)) ([]byte, error) {
	if remain > 0 {
		d := share
		if t, ok := ctx.Deadline(); ok {
			d = time.Until(t) / time.Duration(remain+1)
		}
		part, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		out, err := read(part, a.sources[i])
		if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", err, errdefs.ErrUnavailable)
		}
		return out, err
	}
	return read(ctx, a.sources[i])
}
