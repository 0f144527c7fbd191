package fetch

import (
	"context"
	"fmt"
	"runtime"

	"github.com/faasnet/faasnet/fs/block"
)

// decodeSlots is how many decodes are under way: one a core, and as many that
// write what they decoded.
func decodeSlots() int { return 2 * runtime.GOMAXPROCS(0) }

// join joins the decode of block i, or starts it. The caller owes l.calls.leave.
func (l *Layer) join(ctx context.Context, i int) (w *work, started bool, err error) {
	l.hold()
	w, started, err = l.calls.join(ctx, i, l.table.Ref(l.id.Blob, i), priorityOf(ctx), func(ctx context.Context, w *work) {
		defer func() { _ = l.release() }()
		b, err := l.decode(ctx, w)
		l.calls.publish(i, w, b, err)
	})
	if !started {
		_ = l.release()
	}
	return w, started, err
}

// decode brings block w.ref and makes it present in the flat file if that is
// possible.
func (l *Layer) decode(ctx context.Context, w *work) (*buffer, error) {
	f := l.fetcher
	if err := f.enterDecode(ctx); err != nil {
		return nil, err
	}
	frame := newBuffer(w.ref.Size)
	p, err := f.store.ReadBlock(ctx, w.ref, frame.bytes)
	if err == nil {
		frame.bytes = p
		f.metrics.read(fromStore, w.ref.Size)
	} else {
		f.leaveDecode()
		frame.release()
		if frame, err = f.get(ctx, w.ref, w.urgency); err != nil {
			return nil, err
		}
		l.stats.fetched(w.ref.Size)
		if err := f.enterDecode(ctx); err != nil {
			frame.release()
			return nil, err
		}
	}
	defer f.leaveDecode()
	defer frame.release()
	return l.unpack(ctx, w.ref, frame)
}

// unpack decodes a frame and writes the block.
func (l *Layer) unpack(ctx context.Context, ref block.Ref, frame *buffer) (*buffer, error) {
	_, n := l.table.Span(ref.Number)
	b := newBuffer(n)
	p, err := l.fetcher.decoder.Decode(b.bytes, frame.bytes, n)
	if err != nil {
		b.release()
		return nil, fmt.Errorf("fetch: %v: %w", ref, err)
	}
	b.bytes = p
	l.stats.decoded.Add(1)
	flat, err := l.file()
	if err == nil {
		err = flat.Write(ref.Number, p)
	}
	switch {
	case err != nil:
		l.fetcher.notKept(ctx, err)
	case flat.Complete():
		l.fetcher.seals.push(l)
	}
	return b, nil
}

func (f *Fetcher) enterDecode(ctx context.Context) error {
	select {
	case f.decodes <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *Fetcher) leaveDecode() { <-f.decodes }
