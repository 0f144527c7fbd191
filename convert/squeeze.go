package convert

import (
	"context"
	"errors"
	"io"
	"runtime"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/faasnet/faasnet/fs/block"
)

// Bounds of one process, whatever the number of layers and cores.
const (
	// maxWorkers and encoderMemory, in bytes, bound the encoders.
	maxWorkers    = 16
	encoderMemory = 112 << 20
	// maxLayers bounds the layers that are read at the same time: each has a
	// decoder with its window and a tree that grows.
	maxLayers = 4
	// blockMemory bounds the blocks in flight, in bytes of tar stream; each
	// has room for its frame besides.
	blockMemory = 24 << 20
)

// squeezer compresses blocks on all cores. All layers of a conversion share
// one, so that CPU and memory are bounded together.
type squeezer struct {
	blockSize int
	layers    *semaphore.Weighted // maxLayers
	pieces    chan *piece         // those not in use
	encoders  chan *block.Encoder // those not in use
}

// piece is one block on its way. It belongs to the reader of its layer, then
// to a worker, and from the moment that done gets its value to the writer.
type piece struct {
	raw   []byte
	frame []byte
	done  chan struct{} // capacity 1, one value a round
}

func newSqueezer(blockSize int, level block.Level, workers int) (*squeezer, error) {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	workers = max(1, min(workers, maxWorkers, encoderMemory/encoderSize(level, blockSize)))
	s := &squeezer{
		blockSize: blockSize,
		layers:    semaphore.NewWeighted(maxLayers),
		encoders:  make(chan *block.Encoder, workers),
		pieces:    make(chan *piece, max(2, min(blockMemory/blockSize, 4*workers+maxLayers))),
	}
	for range cap(s.encoders) {
		e, err := block.NewEncoder(level, blockSize)
		if err != nil {
			return nil, err
		}
		s.encoders <- e
	}
	for range cap(s.pieces) {
		s.pieces <- &piece{done: make(chan struct{}, 1)} // gets its memory when it is used
	}
	return s, nil
}

// harder returns a squeezer of one worker with the highest level, which shares the
// blocks in flight with s: what a start layer saves is saved at each start, so it
// is worth the time. One, since its encoder takes 40 MB.
func (s *squeezer) harder() (*squeezer, error) {
	e, err := block.NewEncoder(block.LevelBest, s.blockSize)
	if err != nil {
		return nil, err
	}
	h := *s
	h.encoders = make(chan *block.Encoder, 1)
	h.encoders <- e
	return &h, nil
}

// encoderSize estimates what an encoder keeps, in bytes: the tables of its level
// and its history.
func encoderSize(level block.Level, blockSize int) int {
	tables := map[block.Level]int{
		block.LevelFastest: 1 << 20, block.LevelDefault: 2 << 20, block.LevelBetter: 6 << 20, block.LevelBest: 36 << 20,
	}
	return tables[level] + 4*blockSize
}

// run cuts r into blocks and gives each, in order, first to see, then, as a
// frame, to write. see and write run at the same time and must keep nothing of
// what they get. run returns when all is written, or with the first error.
//
// A piece in the queue needs nothing but an encoder to be done, and a layer's
// oldest piece is always in the queue or written: so layers cannot block each
// other for ever.
func (s *squeezer) run(ctx context.Context, r io.Reader, see func(raw []byte) error, write func(frame []byte, raw int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	queue := make(chan *piece, cap(s.pieces))
	g.Go(func() error {
		defer close(queue)
		return s.cut(ctx, r, see, queue)
	})
	g.Go(func() error {
		var first error
		for p := range queue {
			<-p.done
			if first == nil {
				if first = write(p.frame, len(p.raw)); first == nil {
					first = ctx.Err()
				}
			}
			s.pieces <- p
		}
		return first
	})
	return g.Wait()
}

func (s *squeezer) cut(ctx context.Context, r io.Reader, see func(raw []byte) error, queue chan<- *piece) error {
	for {
		var p *piece
		select {
		case p = <-s.pieces:
		case <-ctx.Done():
			return ctx.Err()
		}
		if p.raw == nil {
			p.raw = make([]byte, s.blockSize)
			p.frame = make([]byte, 0, block.MaxFrame(s.blockSize))
		}
		n, err := fill(r, p.raw[:s.blockSize])
		p.raw = p.raw[:n]
		last := errors.Is(err, io.EOF)
		if err != nil && !last || n == 0 {
			s.pieces <- p
			if last {
				return nil
			}
			return err
		}
		if err := see(p.raw); err != nil {
			s.pieces <- p
			return err
		}
		go func() {
			e := <-s.encoders
			p.frame = e.Encode(p.frame[:0], p.raw)
			s.encoders <- e
			p.done <- struct{}{}
		}()
		queue <- p
		if last {
			return nil
		}
	}
}

// fill reads until p is full. Other than io.ReadFull it gives io.EOF only for a
// clean end: an unexpected one must never look like a short last block.
func fill(r io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = r.Read(p[n:])
		n += m
	}
	return n, err
}
