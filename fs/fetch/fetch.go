// Package fetch decides where a block comes from: the local store, else one
// flight that all who want the block share, to peers first and to the origin at
// last. It verifies each block once, before anybody stores, decodes or reads
// it. On top of blocks it gives layers: ranges of the decoded tar stream, pinned
// in a local file from which FUSE can splice.
//
// Limits in time. A reader waits at most Options.Deadline, counted from its
// call. A flight lives at most that long, from the moment it gets a slot; four
// times as long if nobody waits for it on demand, and for a section, as does its
// reader. It is cancelled within a second after the last one who wanted it has
// left. A failed flight leaves no mark: the next read starts another one.
package fetch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/store"
)

// Origin returns where the bytes of a blob come from at last, the registry.
// nil means that there is nowhere to ask.
type Origin func(blob digest.Digest) block.Source

// Upstreams says whom to ask for a block before the origin.
//
// An Upstreams that is also a Blamer is told who gave bad bytes, one that
// is also a Judge who was late.
type Upstreams interface {
	// Sources returns peers, best first. It is called once a flight, and for each
	// block that a Layer.Rush comes to; it does not block. One of them may answer
	// errdefs.ErrAlreadyExists: it is sending the block unasked, see Offer.
	Sources(ref block.Ref) []block.Source
}

// Judge is told of sources that were asked and then were slower than one asked
// later.
type Judge interface {
	Late(ref block.Ref, src block.Source)
}

// Blamer is told of sources that gave bytes which are not the block.
type Blamer interface {
	Blame(ref block.Ref, src block.Source, err error)
}

// Defaults of Options.
const (
	DefaultDeadline      = 9 * time.Second // a read blocked for 10 s is a failure
	DefaultSlots         = 64
	DefaultBlobSlots     = 8        // so that a layer whose registry hangs does not take all slots
	DefaultInFlightBytes = 64 << 20 // of memory
	DefaultReadAhead     = 4        // 2 MiB at the default block size
	DefaultFillSlots     = 4
	// DefaultFillQuiet is longer than a function that starts computes between two
	// reads. With 100 ms, python with scipy fetched a third more until it was ready
	// (faasnet-bench start --image b, with and without --background=false).
	DefaultFillQuiet = 2 * time.Second
)

// Options of a Fetcher. The zero value is good.
type Options struct {
	// Upstreams are asked before the origin. The default is nobody.
	Upstreams Upstreams
	// Deadline bounds what a reader waits for a block. The default is DefaultDeadline.
	Deadline time.Duration
	// Slots bounds the flights at one time. What is fetched ahead of readers leaves
	// a quarter of them to others. The default is DefaultSlots.
	Slots int
	// BlobSlots bounds the flights for one blob; of those ahead of readers there may
	// be twice as many, beside the others. The default is DefaultBlobSlots.
	BlobSlots int
	// InFlightBytes bounds the compressed bytes of all flights together, in
	// bytes; a single larger one is let through. The default is
	// DefaultInFlightBytes.
	InFlightBytes int64
	// ReadAhead is how many blocks are fetched ahead of a reader that goes
	// through a layer block by block. The default is DefaultReadAhead, below
	// zero means none.
	ReadAhead int
	// NoFill turns background fill off. Run still seals layers that readers
	// completed.
	NoFill bool
	// FillSlots bounds the flights of the background fill; fewer are used on a
	// slow network. The default is DefaultFillSlots.
	FillSlots int
	// FillQuiet is how long the fill waits after the last flight that is on demand or
	// in a start-up order. The default is DefaultFillQuiet.
	FillQuiet time.Duration
	// OnReceive is told of each block that comes in from a peer or the origin,
	// when its first bytes are there: from now on it can be watched. It does not
	// wait. The default is nobody.
	OnReceive func(block.Ref)
	// OnTouch is told of each block of a layer that a container reads, at the
	// first time since the layer was opened. It does not wait. The default is
	// nobody.
	OnTouch func(block.Ref)
	// Registerer takes the fetcher's metrics. The default is none.
	Registerer prometheus.Registerer
}

func (o *Options) setDefaults() error {
	if o.Deadline < 0 || o.Slots < 0 || o.BlobSlots < 0 || o.InFlightBytes < 0 || o.FillSlots < 0 || o.FillQuiet < 0 {
		return fmt.Errorf("fetch: negative limit: %w", errdefs.ErrInvalidArgument)
	}
	setDefault(&o.Deadline, DefaultDeadline)
	setDefault(&o.Slots, DefaultSlots)
	setDefault(&o.BlobSlots, DefaultBlobSlots)
	setDefault(&o.InFlightBytes, DefaultInFlightBytes)
	setDefault(&o.ReadAhead, DefaultReadAhead)
	setDefault(&o.FillSlots, DefaultFillSlots)
	setDefault(&o.FillQuiet, DefaultFillQuiet)
	return nil
}

func setDefault[T comparable](p *T, v T) {
	if zero := *new(T); *p == zero {
		*p = v
	}
}

// Fetcher gets blocks and layers. It is safe for concurrent use. It is a
// block.Source whose blocks are verified.
type Fetcher struct {
	store   *store.Store
	origin  Origin
	opts    Options
	decoder *block.Decoder
	decodes chan struct{} // slots: a decode holds two buffers

	gate    *gate
	flights group[block.Sum]
	peers   latency // of answers from upstreams
	metrics metrics
	full    warning // that nothing can be cached
	wg      sync.WaitGroup
	closing context.CancelFunc
	closed  context.Context //nolint:containedctx // of prefetches; done with Close

	mu      sync.Mutex // guards layers and the refs of each, and stopped; no other lock is taken under it
	layers  map[store.FlatID]*Layer
	stopped bool

	ahead chan struct{} // slots of read-ahead
	fills queue         // layers to fill
	seals queue         // layers that are complete
	once  sync.Once
}

// New returns a Fetcher that keeps blocks in s. It starts nothing. The caller
// closes it, before s.
func New(s *store.Store, origin Origin, o Options) (*Fetcher, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	f := &Fetcher{
		store: s, origin: origin, opts: o,
		decoder: block.NewDecoder(),
		decodes: make(chan struct{}, decodeSlots()),
		gate:    newGate(o),
		layers:  map[store.FlatID]*Layer{},
		ahead:   make(chan struct{}, 4*max(1, o.ReadAhead)),
	}
	f.closed, f.closing = context.WithCancel(context.Background())
	f.flights.init(&f.wg)
	f.fills.init()
	f.seals.init()
	if err := f.metrics.register(o.Registerer, f); err != nil {
		return nil, err
	}
	return f, nil
}

// Close stops every flight and waits for them. Readers get
// errdefs.ErrUnavailable. Layers stay open; their owners close them. Close may
// be called again.
func (f *Fetcher) Close() error {
	f.once.Do(func() {
		f.closing()
		f.flights.close()
		f.mu.Lock()
		f.stopped = true
		layers := make([]*Layer, 0, len(f.layers))
		for _, l := range f.layers {
			layers = append(layers, l)
		}
		f.mu.Unlock()
		for _, l := range layers {
			l.calls.close()
		}
		f.metrics.unregister(f.opts.Registerer)
	})
	f.wg.Wait()
	return nil
}

// spawn runs work that Close waits for, unless it is too late for that.
func (f *Fetcher) spawn(work func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return false
	}
	f.wg.Go(work)
	return true
}

// ReadBlock is that of block.Source. The bytes are verified.
func (f *Fetcher) ReadBlock(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
	p, err := f.store.ReadBlock(ctx, ref, dst)
	if err == nil {
		f.metrics.read(fromStore, ref.Size)
		return p, nil
	}
	ctx, cancel := context.WithTimeout(ctx, f.deadline(ref))
	defer cancel()
	b, err := f.get(ctx, ref, newUrgency(priorityOf(ctx)))
	if err != nil {
		return dst, err
	}
	defer b.release()
	return append(dst, b.bytes...), nil
}
