package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
	"github.com/faasnet/faasnet/fs/store"
)

// background runs f until the test ends.
func background(t *testing.T, f *Fetcher) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func checkLocal(t *testing.T, l *Layer, of *blocktest.Layer) {
	t.Helper()
	path, ok := l.Local()
	if !ok {
		t.Errorf("not local: %+v", l.Stats())
		return
	}
	if p, err := os.ReadFile(path); err != nil || !bytes.Equal(p, of.Stream) {
		t.Errorf("the local file differs: %v", err)
	}
}

// The fill brings what is missing, seals the layer, and goes on with the next.
func TestFill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		all := &blocktest.Memory{}
		origin := blocktest.Count(blocktest.Delay(all, 10*time.Millisecond))
		f := newFetcher(t, newStore(t, store.Options{}), origin, Options{Registerer: reg})
		background(t, f)
		blocks := 0
		var layers []*Layer
		var ofs []*blocktest.Layer
		for i := range 5 {
			of := blocktest.NewLayer(uint64(i), blockSize, i*7*blockSize+i)
			of.Each(all.Put)
			l := openLayer(t, f, of)
			layers, ofs = append(layers, l), append(ofs, of)
			blocks += of.Table.Len()
			l.Fill()
			l.Fill()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for i, l := range layers {
			if !l.Complete() {
				t.Errorf("layer %d is not complete", i)
			}
			if i > 0 { // an empty layer has nothing to seal
				checkLocal(t, l, ofs[i])
			}
		}
		if n := origin.Calls(); n != blocks {
			t.Errorf("%d requests for %d blocks", n, blocks)
		}
		if _, most := origin.Live(); most > DefaultFillSlots {
			t.Errorf("%d requests at a time, want at most %d", most, DefaultFillSlots)
		}
		if n, err := testutil.GatherAndCount(reg); err != nil || n < 10 {
			t.Errorf("metrics: %d, %v", n, err)
		}
		if f.fills.len()+f.seals.len() != 0 {
			t.Error("layers stay in the queues")
		}
	})
}

// A fill that fails goes on later, and not at all once nobody has the layer.
func TestFillGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := blocktest.NewLayer(1, blockSize, 20*blockSize)
		origin := blocktest.Count(blocktest.Fail(of.Source(), 30, errdefs.ErrUnavailable))
		f := newFetcher(t, newStore(t, store.Options{}), origin, Options{})
		background(t, f)
		l := openLayer(t, f, of)
		l.Fill()
		time.Sleep(fillPause - time.Second)
		synctest.Wait()
		if n := origin.Calls(); n == 0 || n > DefaultFillSlots*originAttempts {
			t.Errorf("%d requests to a registry that is down", n)
		}
		time.Sleep(5 * fillPause)
		synctest.Wait()
		checkLocal(t, l, of)

		dead := blocktest.NewLayer(2, blockSize, 20*blockSize)
		closed := openLayer(t, f, dead)
		closed.Fill()
		time.Sleep(time.Second)
		closed.Close()
		asked := origin.Calls()
		time.Sleep(10 * fillPause)
		if n := origin.Calls(); n != asked {
			t.Errorf("%d requests for a layer that nobody has open", n-asked)
		}
		if len(f.layers) != 1 {
			t.Errorf("%d layers stay", len(f.layers))
		}
	})
}

// Without the fill, layers that readers completed are sealed all the same, also
// those that were completed under an earlier handle.
func TestNoFill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := blocktest.NewLayer(1, blockSize, 5*blockSize)
		origin := blocktest.Count(of.Source())
		f := newFetcher(t, newStore(t, store.Options{}), origin, Options{NoFill: true, ReadAhead: -1})
		l := openLayer(t, f, of)
		l.Fill()
		s, err := l.View(t.Context(), 0, 3*blockSize)
		if err != nil {
			t.Fatal(err)
		}
		s.Done()
		time.Sleep(time.Minute)
		if n := origin.Calls(); n != 3 {
			t.Errorf("%d requests, want 3", n)
		}
		if s, err = l.View(t.Context(), 0, 5*blockSize); err != nil {
			t.Fatal(err)
		}
		s.Done()
		synctest.Wait()
		l.Close()
		l = openLayer(t, f, of)
		background(t, f)
		synctest.Wait()
		checkLocal(t, l, of)
	})
}

// The fill never takes the room of blocks that are in use.
func TestFillNeedsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := blocktest.NewLayer(1, blockSize, 8*blockSize)
		big := blocktest.NewLayer(2, blockSize, 40*blockSize)
		all := &blocktest.Memory{}
		of.Each(all.Put)
		big.Each(all.Put)
		f := newFetcher(t, newStore(t, store.Options{MaxFlatBytes: 24 * blockSize}), all, Options{})
		background(t, f)
		used := openLayer(t, f, of)
		s, err := used.View(t.Context(), 0, 7*blockSize)
		if err != nil {
			t.Fatal(err)
		}
		s.Done()
		l := openLayer(t, f, big)
		l.Fill()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if st := used.Stats(); st.Present < 7 {
			t.Errorf("%d of 7 blocks stay", st.Present)
		}
		if st := l.Stats(); st.Present == 0 || st.Present == 40 {
			t.Errorf("%d blocks filled", st.Present)
		}
	})
}

// CD-07: nobody waits for the queue of the fill, however many layers it has.
func TestCD07_FillNeverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFetcher(t, newStore(t, store.Options{}), blocktest.Hang(), Options{})
		began := time.Now()
		for i := range 10 * 16 {
			l := openLayer(t, f, blocktest.NewLayer(uint64(i), blockSize, 2*blockSize))
			l.Fill() // Run is not running
			if _, ok := l.Local(); ok {
				t.Error("local")
			}
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("waited %v", d)
		}
		if n := f.fills.len(); n != 160 {
			t.Errorf("%d layers in the queue", n)
		}
	})
}

// MC-01: what the fill of a large layer holds in memory does not depend on the
// layer's size.
func TestMC01_FillIsNotHeldInMemory(t *testing.T) {
	const size, blocks, limit = 512 << 10, 200, 48 << 20
	enc, err := block.NewEncoder(block.LevelFastest, size)
	if err != nil {
		t.Fatal(err)
	}
	// Every block is the same but for its first bytes, and made when it is asked for.
	plain := blocktest.Random(1, size)
	frame := func(p []byte, i int) []byte {
		p[0], p[1] = byte(i), byte(i>>8)
		return enc.Encode(nil, p)
	}
	entries := make([]block.Entry, blocks)
	for i := range entries {
		p := frame(plain, i)
		entries[i] = block.Entry{Size: uint32(len(p)), Sum: sha256.Sum256(p)}
	}
	table, err := block.NewTable(size, size*blocks, entries)
	if err != nil {
		t.Fatal(err)
	}
	var peak atomic.Uint64
	origin := block.SourceFunc(func(_ context.Context, ref block.Ref, dst []byte) ([]byte, error) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		for old := peak.Load(); m.HeapAlloc > old && !peak.CompareAndSwap(old, m.HeapAlloc); old = peak.Load() {
		}
		return append(dst, frame(bytes.Clone(plain), ref.Number)...), nil
	})
	f := newFetcher(t, newStore(t, store.Options{MaxBytes: 16 << 20}), origin, Options{})
	l, err := f.Layer(blocktest.Digest(plain), table)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !l.Complete() {
		t.Errorf("not filled: %+v", l.Stats())
	}
	if p := peak.Load(); p > limit {
		t.Errorf("heap of %d MiB for a layer of %d MiB, want at most %d MiB", p>>20, size*blocks>>20, limit>>20)
	}
}
