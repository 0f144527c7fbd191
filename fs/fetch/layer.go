package fetch

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/store"
)

// Layer is the uncompressed tar stream of one layer. All who open the same
// layer with the same block table have the same Layer. It is safe for
// concurrent use.
type Layer struct {
	fetcher *Fetcher
	id      store.FlatID
	table   *block.Table
	calls   group[int] // decodes under way, by block
	ahead   ahead
	lapses  lapses
	touched []atomic.Uint32 // a bit for each block that a container has read
	stats   counters

	// Guarded by Fetcher.mu.
	handles int             // calls of Fetcher.Layer without their Close
	open    context.Context //nolint:containedctx // of work for the handles; done when there is none
	shut    context.CancelFunc
	refs    int // handles, and work that may outlive them

	opening sync.Mutex // held while flat is set; no lock of a Fetcher is taken under it
	flat    atomic.Pointer[store.Flat]
}

// Layer returns the layer whose blocks are in blob and whose block table is t.
// Each call owes one Close. A disk that is full does not fail it.
func (f *Fetcher) Layer(blob digest.Digest, t *block.Table) (*Layer, error) {
	if err := blob.Validate(); err != nil {
		return nil, fmt.Errorf("fetch: layer %q: %w: %w", blob, err, errdefs.ErrInvalidArgument)
	}
	p, err := t.AppendBinary(nil)
	if err != nil {
		return nil, fmt.Errorf("fetch: layer %v: %w", blob, err)
	}
	id := store.FlatID{Blob: blob, Table: sha256.Sum256(p), BlockSize: t.BlockSize(), Length: t.Length()}
	f.mu.Lock()
	if f.stopped {
		f.mu.Unlock()
		return nil, errClosed
	}
	l := f.layers[id]
	if l == nil {
		l = &Layer{fetcher: f, id: id, table: t, touched: make([]atomic.Uint32, (t.Len()+31)/32)}
		l.calls.init(&f.wg)
		f.layers[id] = l
	}
	if l.handles == 0 {
		l.open, l.shut = context.WithCancel(f.closed)
	}
	l.handles++
	l.refs++
	f.mu.Unlock()
	flat, err := l.file()
	switch {
	case err == nil:
		if flat.Complete() && !flat.Sealed() { // completed under an earlier handle
			f.seals.push(l)
		}
	case !errdefs.IsResourceExhausted(err):
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// Close gives back what one call of Fetcher.Layer gave. Further calls do
// nothing. The background fill and read-ahead leave a layer that nobody has open.
func (l *Layer) Close() error {
	l.fetcher.mu.Lock()
	open := l.handles > 0
	if open {
		if l.handles--; l.handles == 0 {
			l.shut()
		}
	}
	l.fetcher.mu.Unlock()
	if !open {
		return nil
	}
	return l.release()
}

// hold keeps the layer's file open for work that may outlive the handles. The
// caller has a handle or a hold.
func (l *Layer) hold() {
	l.fetcher.mu.Lock()
	l.refs++
	l.fetcher.mu.Unlock()
}

// holdOpen is hold for one who has neither, if anybody has the layer open.
func (l *Layer) holdOpen() bool {
	l.fetcher.mu.Lock()
	defer l.fetcher.mu.Unlock()
	if l.handles == 0 {
		return false
	}
	l.refs++
	return true
}

// release is the opposite of hold.
func (l *Layer) release() error {
	f := l.fetcher
	f.mu.Lock()
	l.refs--
	last := l.refs == 0
	if last {
		delete(f.layers, l.id)
	}
	f.mu.Unlock()
	if !last {
		return nil
	}
	f.fills.drop(l)
	f.seals.drop(l)
	if flat := l.flat.Load(); flat != nil {
		return flat.Close()
	}
	return nil
}

// whileOpen gives a context that ends with ctx, or as soon as nobody has the layer
// open. The caller owes done.
func (l *Layer) whileOpen(ctx context.Context) (_ context.Context, done func()) {
	l.fetcher.mu.Lock()
	open := l.open
	l.fetcher.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(open, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// wanted reports whether anybody has the layer open.
func (l *Layer) wanted() bool {
	l.fetcher.mu.Lock()
	defer l.fetcher.mu.Unlock()
	return l.handles > 0
}

// file returns the flat file, opened now if it could not be before.
func (l *Layer) file() (*store.Flat, error) {
	if flat := l.flat.Load(); flat != nil {
		return flat, nil
	}
	l.opening.Lock()
	defer l.opening.Unlock()
	if flat := l.flat.Load(); flat != nil {
		return flat, nil
	}
	flat, err := l.fetcher.store.Flat(l.id)
	if err != nil {
		return nil, err
	}
	l.flat.Store(flat)
	return flat, nil
}

// ID names the layer and its block table. Layers with equal ID are the same.
func (l *Layer) ID() store.FlatID { return l.id }

// Size returns the bytes of the tar stream.
func (l *Layer) Size() int64 { return l.id.Length }

// touch says which blocks are read for the first time.
func (l *Layer) touch(first, last int) {
	for i := first; i <= last; i++ {
		w, bit := &l.touched[i/32], uint32(1)<<(i%32)
		if w.Load()&bit == 0 && w.Or(bit)&bit == 0 {
			l.fetcher.opts.OnTouch(l.table.Ref(l.id.Blob, i))
		}
	}
}

// Local returns the path of the whole layer as a local file, once it is sealed.
// Until Close the path stays; the content stays for whoever has it open or
// mounted.
func (l *Layer) Local() (path string, ok bool) {
	flat, err := l.file()
	if err != nil {
		return "", false
	}
	return flat.Local()
}

// Complete reports whether the whole layer is on local disk, decoded.
func (l *Layer) Complete() bool {
	flat, err := l.file()
	return err == nil && flat.Complete()
}
