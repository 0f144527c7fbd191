package fetch

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
	"github.com/faasnet/faasnet/fs/store"
)

// flaky is a source that misbehaves in every way that a source can, at random.
func flaky(src block.Source, seed uint64) block.Source {
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(seed, 0))
	faults := []block.Source{
		src, src, src, blocktest.Delay(src, 30*time.Millisecond), blocktest.Delay(src, 3*time.Second),
		blocktest.Fail(src, -1, errdefs.ErrUnavailable), blocktest.Fail(src, -1, errdefs.ErrNotFound),
		blocktest.Flip(src, -1), blocktest.Truncate(src, -1, 10), blocktest.Hang(),
	}
	return block.SourceFunc(func(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
		mu.Lock()
		s := faults[rnd.IntN(len(faults))]
		mu.Unlock()
		return s.ReadBlock(ctx, ref, dst)
	})
}

// Readers, relays and the fill of several layers, with sources that fail in
// every way, readers that leave, caches that are too small, layers that come and
// go and a collector that runs all the time: no wrong byte, no reader beyond its
// deadline, nothing left at the end. The bubble finds every deadlock.
func TestChaos(t *testing.T) {
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) { chaos(t, seed) })
	}
}

func chaos(t *testing.T, seed uint64) {
	t.Helper()
	const layers, blocks = 5, 16
	all := &blocktest.Memory{}
	var ofs [layers]*blocktest.Layer
	for i := range ofs {
		ofs[i] = blocktest.NewLayer(uint64(i), blockSize, blocks*blockSize-i)
		ofs[i].Each(all.Put)
	}
	s := newStore(t, store.Options{MaxBytes: 20 * blockSize, MaxFlatBytes: 30 * blockSize, MaxOpenFlat: 2})
	f := newFetcher(t, s, flaky(all, seed), Options{
		Upstreams: &peers{sources: []block.Source{flaky(all, seed+100), flaky(all, seed+200)}},
		Slots:     6, BlobSlots: 3,
	})
	ctx, cancel := context.WithCancel(t.Context())
	var work, background sync.WaitGroup
	background.Go(func() { _ = f.Run(ctx) })
	background.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			if err := s.Retain(func(d digest.Digest) bool { return d != ofs[i%layers].Digest }); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
		}
	})
	good := make([]int, 12)
	for g := range good {
		work.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(g)))
			for range 60 {
				if chaosStep(t, f, ofs[rnd.IntN(layers)], rnd) {
					good[g]++
				}
			}
		})
	}
	work.Wait()
	cancel()
	background.Wait()
	time.Sleep(time.Minute)
	synctest.Wait()
	sum := 0
	for _, n := range good {
		sum += n
	}
	if sum < len(good)*10 {
		t.Errorf("seed %d: %d reads succeeded: the test shows nothing", seed, sum)
	}
	if n := len(f.flights.works) + f.gate.active + f.gate.urgent + len(f.gate.taken) + len(f.decodes) + len(f.ahead) + len(f.layers); n != 0 {
		t.Errorf("seed %d: %d things stay", seed, n)
	}
	if u := s.Usage(); u.BlockBytes > 20*blockSize || u.FlatBytes > 30*blockSize {
		t.Errorf("seed %d: usage %+v", seed, u)
	}
}

// chaosStep does something with a layer and reports whether a read succeeded.
func chaosStep(t *testing.T, f *Fetcher, of *blocktest.Layer, rnd *rand.Rand) bool {
	t.Helper()
	ctx := WithPriority(t.Context(), Priority(rnd.IntN(int(priorities))))
	if rnd.IntN(4) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rnd.IntN(200))*time.Millisecond)
		defer cancel()
	}
	began := time.Now()
	defer func() {
		if d := time.Since(began); d > DefaultDeadline {
			t.Errorf("a read took %v", d)
		}
	}()
	if rnd.IntN(4) == 0 {
		i := rnd.IntN(of.Table.Len())
		p, err := f.ReadBlock(ctx, of.Ref(i), nil)
		if err == nil && !bytes.Equal(p, of.Frame(i)) {
			t.Errorf("block %d differs", i)
		}
		return err == nil
	}
	l, err := f.Layer(of.Digest, of.Table)
	if err != nil {
		t.Error(err)
		return false
	}
	defer l.Close()
	if rnd.IntN(4) == 0 {
		l.Fill()
	}
	off := rnd.Int64N(l.Size())
	n := int(min(l.Size()-off, 1+rnd.Int64N(3*blockSize)))
	s, err := l.View(ctx, off, n)
	if err != nil {
		if errors.Is(err, errdefs.ErrInternal) {
			t.Error(err)
		}
		return false
	}
	if !bytes.Equal(content(t, s), of.Stream[off:off+int64(n)]) {
		t.Errorf("%d bytes at %d differ", n, off)
	}
	return true
}
