package fetch

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/store"
)

// MaxView bounds the bytes of one view, in bytes. FUSE asks for 128 KiB to
// 1 MiB.
const MaxView = 16 << 20

// Span is a range of a layer that stays readable until Done: pinned in a local
// file or, where the disk takes no more, in memory.
type Span struct {
	Data   []byte   // the bytes; nil when they are in File
	File   *os.File // holds the bytes at Offset
	Offset int64
	Len    int
	Done   func() // gives the range back, exactly once; nil when there is nothing to give back
}

// View gives exactly n bytes at off, or an error. The range lies within Size.
// It waits for the blocks that are missing, at most Options.Deadline; not at all
// for one that somebody waited that long for just before.
func (l *Layer) View(ctx context.Context, off int64, n int) (Span, error) {
	if off < 0 || n < 0 || n > MaxView || off > l.id.Length-int64(n) {
		return Span{}, fmt.Errorf("fetch: %d bytes at %d of layer %v of %d bytes: %w", n, off, l.id.Blob, l.id.Length, errdefs.ErrOutOfRange)
	}
	if n == 0 {
		return Span{Data: []byte{}}, nil
	}
	size := int64(l.id.BlockSize)
	first, last := int(off/size), int((off+int64(n)-1)/size)
	defer l.readAhead(ctx, first, last)
	if l.fetcher.opts.OnTouch != nil && priorityOf(ctx) == OnDemand {
		l.touch(first, last)
	}
	flat, err := l.file()
	if err == nil {
		pins, ok, err := flat.Pin(first, last)
		if err != nil {
			l.fetcher.notKept(ctx, err)
		}
		if ok {
			l.stats.hits.Add(1)
			return Span{File: pins.File(), Offset: off, Len: n, Done: pins.Release}, nil
		}
	}
	return l.bring(ctx, off, n, first, last)
}

// part is one block of a view that is being brought: pinned, or decoded in
// memory.
type part struct {
	pins    store.Pins
	work    *work
	started bool // by this view
	data    *buffer
}

// bring gets the missing blocks, all at once, and gives the range. What one
// block brought is kept until the last has come, pinned or in memory, so that
// eviction meanwhile cannot make it start again.
func (l *Layer) bring(ctx context.Context, off int64, n, first, last int) (_ Span, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.fetcher.opts.Deadline)
	defer cancel()
	end := l.stats.wait()
	defer func() { end(err) }()
	parts := make([]part, last-first+1)
	done := func() {
		for i := range parts {
			parts[i].done(l, first+i)
		}
	}
	for i := range parts {
		if parts[i].pins, err = l.pin(first + i); err == nil {
			continue
		}
		if l.lapses.has(first + i) {
			err = fmt.Errorf("fetch: block %d of layer %v: a reader has just waited for it in vain: %w", first+i, l.id.Blob, context.DeadlineExceeded)
		} else {
			err = parts[i].join(ctx, l, first+i)
		}
		if err != nil {
			done()
			return Span{}, err
		}
	}
	pinned := true
	for i := range parts {
		p := &parts[i]
		if p.work == nil {
			continue
		}
		if err = p.wait(ctx, l, first+i); err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				l.lapsed(parts[i:], first+i)
			}
			done()
			return Span{}, fmt.Errorf("fetch: %d bytes at %d of layer %v: %w", n, off, l.id.Blob, err)
		}
		p.pins, err = l.pin(first + i)
		pinned = pinned && err == nil
	}
	if pinned {
		for i := range parts {
			parts[i].decoded(l, first+i)
		}
		return Span{File: parts[0].pins.File(), Offset: off, Len: n, Done: done}, nil
	}
	defer done()
	p, err := l.assemble(parts, first, off, n)
	if err != nil {
		return Span{}, err
	}
	l.stats.fromMemory.Add(1)
	return Span{Data: p}, nil
}

// pin pins one block; the error says that it is not there or cannot be.
func (l *Layer) pin(i int) (store.Pins, error) {
	flat, err := l.file()
	if err != nil {
		return store.Pins{}, err
	}
	pins, ok, err := flat.Pin(i, i)
	if err == nil && !ok {
		err = errdefs.ErrNotFound
	}
	return pins, err
}

func (p *part) join(ctx context.Context, l *Layer, i int) (err error) {
	p.work, p.started, err = l.join(ctx, i)
	return err
}

// wait waits for the decode that p joined. If that ran out of its own time,
// which began before this view, p starts another one with the time it has left.
func (p *part) wait(ctx context.Context, l *Layer, i int) (err error) {
	for {
		p.data, err = p.work.wait(ctx)
		if err == nil || p.started || ctx.Err() != nil || !mayAgain(ctx, err) {
			return err
		}
		l.calls.leave(i, p.work)
		p.work = nil
		if err := p.join(ctx, l, i); err != nil {
			return err
		}
	}
}

// lapsed says that all of parts that are not there were waited for in vain.
func (l *Layer) lapsed(parts []part, first int) {
	for i := range parts {
		if w := parts[i].work; w != nil && !w.succeeded() {
			l.lapses.add(first + i)
		}
	}
}

// decoded gives back what the part has in memory.
func (p *part) decoded(l *Layer, i int) {
	if p.data != nil {
		p.data.release()
		p.data = nil
	}
	if p.work != nil {
		l.calls.leave(i, p.work)
		p.work = nil
	}
}

// done gives back all that the part has.
func (p *part) done(l *Layer, i int) {
	p.decoded(l, i)
	p.pins.Release()
	p.pins = store.Pins{}
}

// assemble copies the range out of its blocks. This is where a view that is not
// pinned as a whole gets its length.
func (l *Layer) assemble(parts []part, first int, off int64, n int) ([]byte, error) {
	out := make([]byte, 0, n)
	for i := range parts {
		start, size := l.table.Span(first + i)
		from := max(off-start, 0)
		to := min(off+int64(n)-start, int64(size))
		if p := &parts[i]; p.data != nil {
			out = append(out, p.data.bytes[from:to]...)
			continue
		}
		have := len(out)
		out = out[:have+int(to-from)]
		if _, err := parts[i].pins.File().ReadAt(out[have:], start+from); err != nil {
			return nil, fmt.Errorf("fetch: block %d of layer %v: %w", first+i, l.id.Blob, err)
		}
	}
	if len(out) != n {
		return nil, fmt.Errorf("fetch: %d bytes at %d of layer %v, want %d: %w", len(out), off, l.id.Blob, n, errdefs.ErrInternal)
	}
	return out, nil
}
