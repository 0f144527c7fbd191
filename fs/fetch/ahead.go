package fetch

import (
	"context"
	"sync"
	"sync/atomic"
)

// streams is how many sequential readers of one layer are told apart: overlayfs
// has many files of a layer open, few of them are read from start to end at the
// same time.
const streams = 8

// ahead sees readers that go through a layer block by block. The kernel never
// asks further ahead than 256 KiB, less than one block.
type ahead struct {
	last atomic.Int64 // block of the last view, plus one: most views repeat it

	mu      sync.Mutex // guards streams and clock
	streams [streams]stream
	clock   uint64
}

// stream is one sequential reader: it is expected at next, has been seen to go
// forward run times, and blocks below to were asked for ahead.
type stream struct {
	next, run, to int
	used          uint64
}

// see notes a view of the blocks first to last and returns which blocks to
// fetch ahead, from inclusive to to exclusive. A reader gets nothing for its
// first step, and then one, two, four blocks, up to limit.
func (a *ahead) see(first, last, limit int) (from, to int) {
	if a.last.Swap(int64(last)+1) == int64(last)+1 {
		return 0, 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.clock++
	oldest := &a.streams[0]
	for i := range a.streams {
		s := &a.streams[i]
		if s.used < oldest.used {
			oldest = s
		}
		if s.used == 0 || first > s.next || last < s.next-1 {
			continue
		}
		s.used = a.clock
		if last < s.next {
			return 0, 0 // still in the block it was in
		}
		s.next = last + 1
		s.run++
		if s.run < 2 {
			return 0, 0
		}
		from = max(s.to, s.next)
		s.to = max(from, s.next+min(limit, 1<<min(s.run-2, 16)))
		return from, s.to
	}
	*oldest = stream{next: last + 1, used: a.clock}
	return 0, 0
}

// readAhead starts fetching what a sequential reader will want next. It never
// waits: where too much is under way already it does nothing.
func (l *Layer) readAhead(ctx context.Context, first, last int) {
	f := l.fetcher
	if f.opts.ReadAhead < 0 || priorityOf(ctx) != OnDemand {
		return
	}
	from, to := l.ahead.see(first, last, f.opts.ReadAhead)
	for i := from; i < min(to, l.table.Len()); i++ {
		select {
		case f.ahead <- struct{}{}:
		default:
			return
		}
		if !l.prefetch(ctx, i) {
			<-f.ahead
		}
	}
}

// prefetch brings block i in the background, and reports whether there is
// anything to do. The caller has taken a slot of ahead, which goes with it.
func (l *Layer) prefetch(ctx context.Context, i int) bool {
	if flat, err := l.file(); err != nil || flat.Has(i) {
		return false
	}
	f := l.fetcher
	w, _, err := l.join(WithPriority(context.WithoutCancel(ctx), Order), i)
	if err != nil {
		return false
	}
	l.stats.ahead.Add(1)
	started := f.spawn(func() { //nolint:contextcheck // goes on without the reader
		defer func() { <-f.ahead }()
		defer l.calls.leave(i, w)
		ctx, done := l.whileOpen(f.closed)
		defer done()
		if b, err := w.wait(ctx); err == nil {
			b.release()
		}
	})
	if !started {
		l.calls.leave(i, w)
	}
	return started
}
