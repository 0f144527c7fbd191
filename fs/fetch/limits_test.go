package fetch

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
	"github.com/faasnet/faasnet/fs/store"
)

// For one read(2) the kernel asks several times, each time that it got an error
// for less. All of them together take one deadline, and what comes a moment
// later is tried anew.
func TestOneDeadlineForReadsInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := blocktest.NewLayer(1, 64<<10, 256<<10)
		var back atomic.Bool
		f := newFetcher(t, newStore(t, store.Options{}), block.SourceFunc(func(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
			if back.Load() {
				return of.Source().ReadBlock(ctx, ref, dst)
			}
			return blocktest.Hang().ReadBlock(ctx, ref, dst)
		}), Options{ReadAhead: -1})
		l := openLayer(t, f, of)
		began := time.Now()
		for _, n := range []int{128 << 10, 128 << 10, 64 << 10, 4 << 10} {
			for off := int64(0); off < 128<<10; off += int64(n) {
				if s, err := l.View(t.Context(), off, n); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%d bytes at %d: %v %v", n, off, s, err)
				}
			}
		}
		if d := time.Since(began); d != DefaultDeadline {
			t.Errorf("reads in a row take %v, want %v", d, DefaultDeadline)
		}
		back.Store(true)
		time.Sleep(lapse)
		s, err := l.View(t.Context(), 0, 128<<10)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(content(t, s), of.Stream[:128<<10]) {
			t.Error("other bytes")
		}
	})
}

// A reader waits no longer than the deadline, even if it joins a flight that
// has already taken most of its time, and gets all of the deadline.
func TestDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T, w way) {
		of := blocktest.NewLayer(1, blockSize, blockSize)
		f := newFetcher(t, newStore(t, store.Options{}), blocktest.Hang(), Options{})
		l := openLayer(t, f, of)
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 2 * time.Second)
				began := time.Now()
				if err := w.read(t.Context(), f, l, of, 0); err == nil {
					t.Error("no error from a source that hangs")
				}
				if d := time.Since(began); d != DefaultDeadline {
					t.Errorf("reader %d: error after %v, want %v", i, d, DefaultDeadline)
				}
			})
		}
		wg.Wait()
	})
}

// A section may take longer than a block, in one flight.
func TestSectionTakesLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := blocktest.Random(1, 5<<20)
		ref := blocktest.SectionRef(blocktest.Digest(p), 0, p)
		src := &blocktest.Memory{}
		src.Put(ref, p)
		origin := blocktest.Count(newLink(src, 4e6/8))
		f := newFetcher(t, newStore(t, store.Options{}), origin, Options{})
		if got, err := f.ReadBlock(t.Context(), ref, nil); err != nil || !bytes.Equal(got, p) {
			t.Error("wrong bytes or", err)
		}
		if n := origin.Calls(); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
	})
}

func TestClose(t *testing.T) {
	inBubble(t, func(t *testing.T, w way) {
		of := blocktest.NewLayer(1, blockSize, 4*blockSize)
		f := newFetcher(t, newStore(t, store.Options{}), blocktest.Hang(), Options{})
		l := openLayer(t, f, of)
		done := make(chan error)
		for i := range 4 {
			go func() { done <- w.read(t.Context(), f, l, of, i) }()
		}
		synctest.Wait()
		began := time.Now()
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			if err := <-done; !errdefs.IsUnavailable(err) {
				t.Errorf("reader of a closed fetcher: %v", err)
			}
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("Close took %v", d)
		}
		if err := w.read(t.Context(), f, l, of, 0); !errdefs.IsUnavailable(err) {
			t.Errorf("read after Close: %v", err)
		}
		if _, err := f.Layer(of.Digest, of.Table); !errdefs.IsUnavailable(err) {
			t.Errorf("Layer after Close: %v", err)
		}
	})
}

func TestRefuses(t *testing.T) {
	of := blocktest.NewLayer(1, blockSize, blockSize)
	f := newFetcher(t, newStore(t, store.Options{}), of.Source(), Options{})
	for _, size := range []int{0, -1, block.MaxSection + 1} {
		ref := of.Ref(0)
		ref.Size = size
		ref.Sum[0]++
		if _, err := f.ReadBlock(t.Context(), ref, nil); !errdefs.IsInvalidArgument(err) {
			t.Errorf("block of %d bytes: %v", size, err)
		}
	}
	if _, err := f.Layer("sha256:../x", of.Table); !errdefs.IsInvalidArgument(err) {
		t.Errorf("layer without a digest: %v", err)
	}
	if _, err := New(nil, nil, Options{Slots: -1}); !errdefs.IsInvalidArgument(err) {
		t.Errorf("negative limit: %v", err)
	}
}
