package fetch

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
	"github.com/faasnet/faasnet/fs/store"
)

// way is how a test reads a block: compressed, or a range of the layer.
type way struct {
	name string
	read func(ctx context.Context, f *Fetcher, l *Layer, of *blocktest.Layer, i int) error
}

var ways = []way{
	{"ReadBlock", func(ctx context.Context, f *Fetcher, _ *Layer, of *blocktest.Layer, i int) error {
		p, err := f.ReadBlock(ctx, of.Ref(i), nil)
		if err == nil && !bytes.Equal(p, of.Frame(i)) {
			err = errors.New("wrong bytes")
		}
		return err
	}},
	{"View", func(ctx context.Context, _ *Fetcher, l *Layer, of *blocktest.Layer, i int) error {
		off, n := of.Table.Span(i)
		s, err := l.View(ctx, off, n)
		if err != nil {
			return err
		}
		p := make([]byte, n)
		if s.File != nil {
			_, err = s.File.ReadAt(p, s.Offset)
		} else {
			copy(p, s.Data)
		}
		if s.Done != nil {
			s.Done()
		}
		if err == nil && !bytes.Equal(p, of.Block(i)) {
			err = errors.New("wrong bytes")
		}
		return err
	}},
}

// inBubble runs a test with virtual time for both ways to read.
func inBubble(t *testing.T, test func(t *testing.T, w way)) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, w) })
		})
	}
}

// CD-05: readers of a block whose source fails get an error within the budget,
// and the next read succeeds.
func TestCD05_FailureLeavesNoMark(t *testing.T) {
	inBubble(t, func(t *testing.T, w way) {
		of := blocktest.NewLayer(1, blockSize, 2*blockSize)
		for name, broken := range map[string]block.Source{
			"fails": blocktest.Fail(of.Source(), -1, errdefs.ErrUnavailable),
			"hangs": blocktest.Hang(),
		} {
			var heal sync.Mutex
			source := broken
			origin := block.SourceFunc(func(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
				heal.Lock()
				src := source
				heal.Unlock()
				return src.ReadBlock(ctx, ref, dst)
			})
			f := newFetcher(t, newStore(t, store.Options{}), origin, Options{})
			l := openLayer(t, f, of)
			began := time.Now()
			var wg sync.WaitGroup
			for range 32 {
				wg.Go(func() {
					if err := w.read(t.Context(), f, l, of, 1); err == nil {
						t.Errorf("%s: read succeeds", name)
					}
				})
			}
			wg.Wait()
			if d := time.Since(began); d > DefaultDeadline {
				t.Errorf("%s: error after %v, the budget is %v", name, d, DefaultDeadline)
			}
			heal.Lock()
			source = of.Source()
			heal.Unlock()
			time.Sleep(lapse) // or the kernel would be asking again for the same read(2)
			if err := w.read(t.Context(), f, l, of, 1); err != nil {
				t.Errorf("%s: read after healing: %v", name, err)
			}
			synctest.Wait() // the block is being put
			if n := len(f.flights.works) + len(l.calls.works); n != 0 {
				t.Errorf("%s: %d marks stay", name, n)
			}
		}
	})
}

// CD-06: a reader that leaves does not take the others' fetch with it.
func TestCD06_FirstReaderLeaves(t *testing.T) {
	inBubble(t, func(t *testing.T, w way) {
		of := blocktest.NewLayer(1, blockSize, blockSize)
		origin := blocktest.Count(blocktest.Delay(of.Source(), 4*time.Second))
		f := newFetcher(t, newStore(t, store.Options{}), origin, Options{})
		l := openLayer(t, f, of)
		actx, kill := context.WithCancel(t.Context())
		a, b := make(chan error, 1), make(chan error, 1)
		go func() { a <- w.read(actx, f, l, of, 0) }()
		synctest.Wait()
		go func() { b <- w.read(t.Context(), f, l, of, 0) }()
		synctest.Wait()
		began := time.Now()
		kill()
		if err := <-a; !errors.Is(err, context.Canceled) {
			t.Errorf("A: %v", err)
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("A left after %v", d)
		}
		if err := <-b; err != nil {
			t.Errorf("B: %v", err)
		}
		if n := origin.Calls(); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
	})
}

// CD-06: when all leave, the fetch stops within a second; who comes back at
// once finds it still there.
func TestCD06_AllLeave(t *testing.T) {
	inBubble(t, func(t *testing.T, w way) {
		of := blocktest.NewLayer(1, blockSize, blockSize)
		origin := blocktest.Count(blocktest.Delay(of.Source(), 4*time.Second))
		f := newFetcher(t, newStore(t, store.Options{}), origin, Options{})
		l := openLayer(t, f, of)
		leave := func() {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			for range 3 {
				go func() { done <- w.read(ctx, f, l, of, 0) }()
			}
			synctest.Wait()
			cancel()
			for range 3 {
				if err := <-done; !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
		}
		leave()
		time.Sleep(grace / 2)
		leave()
		if n := origin.Calls(); n != 1 {
			t.Errorf("%d requests, want 1: the second round comes within the grace", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if now, _ := origin.Live(); now != 0 {
			t.Error("the fetch goes on a second after the last reader left")
		}
		if err := w.read(t.Context(), f, l, of, 0); err != nil || origin.Calls() != 2 {
			t.Errorf("read afterwards: %v, %d requests", err, origin.Calls())
		}
	})
}

// CD-09: many readers of parts of one block cause one fetch and one write.
func TestCD09_OneFetch(t *testing.T) {
	const size = 512 << 10
	of := blocktest.NewLayer(1, size, size)
	gate := blocktest.NewGate(of.Source())
	origin := blocktest.Count(gate)
	s := newStore(t, store.Options{})
	f := newFetcher(t, s, origin, Options{})
	var layers [2]*Layer
	for i := range layers { // two images with the same layer
		layers[i] = openLayer(t, f, of)
	}
	if layers[0] != layers[1] {
		t.Error("the same layer is opened twice")
	}
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			off := i % 4 * size / 4
			v, err := layers[i/32].View(t.Context(), int64(off), size/4)
			if err != nil {
				t.Error(err)
				return
			}
			if got := content(t, v); !bytes.Equal(got, of.Stream[off:off+size/4]) {
				t.Errorf("slice at %d differs", off)
			}
		})
	}
	<-gate.Entered()
	gate.Open()
	wg.Wait()
	if n := origin.Calls(); n != 1 {
		t.Errorf("%d fetches, want 1", n)
	}
	st := layers[0].Stats()
	if st.Decoded != 1 || st.BlocksFetched != 1 || st.Present != 1 || st.Waits+st.Hits != 64 {
		t.Errorf("stats %+v", st)
	}
	if err := f.Close(); err != nil { // waits for the disk, as readers do not
		t.Error(err)
	}
	if u := s.Usage(); u.Blocks != 1 {
		t.Errorf("usage %+v", u)
	}
}

// CD-09: two layers that have a block in common share its flight and its copy.
func TestCD09_SameBlockInTwoLayers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := blocktest.NewLayer(1, blockSize, 2*blockSize)
		origin := blocktest.Count(blocktest.Delay(of.Source(), time.Second))
		f := newFetcher(t, newStore(t, store.Options{}), origin, Options{})
		var wg sync.WaitGroup
		for i := range 10 {
			ref := of.Ref(0)
			ref.Number = i
			wg.Go(func() {
				if p, err := f.ReadBlock(t.Context(), ref, nil); err != nil || !bytes.Equal(p, of.Frame(0)) {
					t.Error("wrong bytes or", err)
				}
			})
		}
		wg.Wait()
		if n := origin.Calls(); n != 1 {
			t.Errorf("%d fetches, want 1", n)
		}
	})
}

// Who joins a flight that somebody's false reference started is not hurt.
func TestFalseReferenceHurtsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := blocktest.NewLayer(1, blockSize, 2*blockSize)
		blobs := block.SourceFunc(func(_ context.Context, ref block.Ref, dst []byte) ([]byte, error) {
			time.Sleep(time.Second)
			return append(dst, of.Blob[ref.Offset:ref.Offset+int64(ref.Size)]...), nil
		})
		f := newFetcher(t, newStore(t, store.Options{}), blobs, Options{})
		lie := of.Ref(0)
		lie.Offset = of.Ref(1).Offset
		liar, honest := make(chan error, 1), make(chan error, 1)
		go func() { _, err := f.ReadBlock(t.Context(), lie, nil); liar <- err }()
		synctest.Wait()
		go func() { _, err := f.ReadBlock(t.Context(), of.Ref(0), nil); honest <- err }()
		if err := <-liar; !errdefs.IsDataLoss(err) {
			t.Errorf("liar: %v", err)
		}
		if err := <-honest; err != nil {
			t.Errorf("honest: %v", err)
		}
		short := of.Ref(0)
		short.Size--
		if _, err := f.ReadBlock(t.Context(), short, nil); !errdefs.IsDataLoss(err) {
			t.Errorf("wrong size: %v", err)
		}
		if _, err := f.ReadBlock(t.Context(), of.Ref(0), nil); err != nil {
			t.Errorf("after a wrong size: %v", err)
		}
	})
}
