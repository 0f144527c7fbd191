package fetch

import (
	"context"
	"errors"
	"fmt"
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

// everything is a limit that is none.
const everything = 1 << 40

// incompressible is a layer of blocks that all are as large as they travel.
func incompressible(seed uint64, size, blocks int) *blocktest.Layer {
	return blocktest.Cut(blocktest.Random(seed, size*blocks), size)
}

// A rush keeps a link full, slow or fast, near or far, with few blocks in flight
// where few are enough.
func TestRushKeepsLinkFull(t *testing.T) {
	of := incompressible(1, 256<<10, 120)
	for _, c := range []struct {
		mbit int
		rtt  time.Duration
		most int // blocks at a time
	}{
		{25, 200 * time.Microsecond, 4},
		{25, 20 * time.Millisecond, 4},
		{100, 2 * time.Millisecond, 4},
		{1000, 200 * time.Microsecond, 4},
		{1000, 2 * time.Millisecond, 6},
		{1000, 20 * time.Millisecond, aheadSlots * DefaultBlobSlots},
	} {
		t.Run(fmt.Sprintf("%d Mbit, %v", c.mbit, c.rtt), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rate := c.mbit * 1e6 / 8
				wire := blocktest.Delay(newLink(of.Source(), rate), c.rtt)
				origin := blocktest.Count(wire)
				f := newFetcher(t, newStore(t, store.Options{}), origin, Options{})
				l := openLayer(t, f, of)
				began := time.Now()
				n, err := l.Rush(t.Context(), everything)
				took, line := time.Since(began), time.Duration(of.Table.Bytes())*time.Second/time.Duration(rate)
				if err != nil || n != of.Table.Len() || !l.Complete() {
					t.Errorf("asked for %d blocks, %v, %+v", n, err, l.Stats())
				}
				_, most := origin.Live()
				t.Logf("%v, the line takes %v; at most %d at a time", took, line, most)
				if limit := line*11/10 + 4*c.rtt; took > limit || most > c.most {
					t.Errorf("want %v and %d", limit, c.most)
				}
				for i, r := range origin.Refs() {
					if off := r.Number - i; off*off > leastWindow*leastWindow {
						t.Errorf("request %d is for block %d", i, r.Number)
					}
				}
			})
		})
	}
}

// Readers of the same layer meanwhile, and afterwards, find what was fetched and
// decoded once.
func TestRushAndReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := incompressible(1, blockSize, 100)
		origin := blocktest.Count(blocktest.Delay(of.Source(), 10*time.Millisecond))
		f := newFetcher(t, newStore(t, store.Options{}), origin, Options{ReadAhead: -1})
		l := openLayer(t, f, of)
		go func() {
			for _, i := range []int{0, 2, 60, 99, 98, 1} {
				s, err := l.View(t.Context(), int64(i)*blockSize, blockSize)
				if err != nil {
					t.Error(err)
					return
				}
				s.Done()
			}
		}()
		if n, err := l.Rush(t.Context(), everything); err != nil || n > 100 {
			t.Errorf("asked for %d blocks, %v", n, err)
		}
		synctest.Wait()
		if n := origin.Calls(); n != 100 {
			t.Errorf("%d requests for 100 blocks", n)
		}
		if s := l.Stats(); s.Decoded != 100 || s.Present != 100 {
			t.Errorf("%+v", s)
		}
		if n, err := l.Rush(t.Context(), everything); err != nil || n != 0 || origin.Calls() != 100 {
			t.Errorf("a second time: asked for %d blocks, %v", n, err)
		}
	})
}

// A read on demand waits for the blocks that are on the line, not for those that
// would follow, be it in the same layer; and the fill waits for both.
func TestRushYields(t *testing.T) {
	const size, rate = 128 << 10, 25e6 / 8
	synctest.Test(t, func(t *testing.T) {
		of, other := incompressible(1, size, 60), incompressible(2, size, 10)
		all := &blocktest.Memory{}
		of.Each(all.Put)
		other.Each(all.Put)
		origin := blocktest.Count(newLink(all, rate))
		f := newFetcher(t, newStore(t, store.Options{}), origin, Options{ReadAhead: -1})
		background(t, f)
		l, beside := openLayer(t, f, of), openLayer(t, f, other)
		rushed := make(chan error, 1)
		go func() {
			_, err := l.Rush(t.Context(), everything)
			rushed <- err
		}()
		synctest.Wait()
		beside.Fill()
		time.Sleep(500 * time.Millisecond)
		alone := time.Duration(size) * time.Second / rate
		for _, r := range []struct {
			l *Layer
			i int
		}{{l, 50}, {beside, 5}} {
			began := time.Now()
			s, err := r.l.View(t.Context(), int64(r.i)*size, 1)
			if err != nil {
				t.Fatal(err)
			}
			s.Done()
			if took := time.Since(began); took > 4*alone {
				t.Errorf("a read takes %v, %v alone", took, alone)
			}
		}
		if err := <-rushed; err != nil {
			t.Error(err)
		}
		if s := beside.Stats(); s.Decoded != 1 {
			t.Errorf("the fill brought %d blocks meanwhile", s.Decoded-1)
		}
	})
}

// Slots for what is read on demand are left, however many blocks hang that were
// asked for ahead.
func TestRushLeavesSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := incompressible(1, blockSize, 100)
		hang := blocktest.Hang()
		origin := block.SourceFunc(func(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
			if ref.Number < 90 {
				return hang.ReadBlock(ctx, ref, dst)
			}
			return of.Source().ReadBlock(ctx, ref, dst)
		})
		f := newFetcher(t, newStore(t, store.Options{}), origin, Options{ReadAhead: -1})
		l := openLayer(t, f, of)
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 30 {
			go func() { _, _ = f.ReadBlock(WithPriority(ctx, Order), of.Ref(i), nil) }()
		}
		rushed := make(chan error, 1)
		go func() {
			_, err := l.Rush(ctx, everything)
			rushed <- err
		}()
		synctest.Wait()
		began := time.Now()
		if _, err := l.View(t.Context(), 95*blockSize, 1); err != nil || time.Since(began) != 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		cancel()
		if err := <-rushed; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

// What cannot be had is left out; where that is much, or where there is no room,
// the rush ends.
func TestRushEnds(t *testing.T) {
	of := incompressible(1, blockSize, 100)
	for name, c := range map[string]struct {
		fails int
		limit int64
		flat  int64
		want  func(error) bool
		asked int
		here  int // decoded
	}{
		"few failures": {4 * originAttempts, everything, 0, func(err error) bool { return err == nil }, 100, 96},
		"all fail":     {1000, everything, 0, errdefs.IsUnavailable, rushFailures, 0},
		"a limit":      {0, 10 * of.Table.Bytes() / 100, 0, errdefs.IsResourceExhausted, 10, 10},
		"small disk":   {0, everything, 20 * blockSize, func(err error) bool { return err == nil }, 100, 20 - rushRoom + 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				origin := blocktest.Count(blocktest.Fail(of.Source(), c.fails, errdefs.ErrUnavailable))
				f := newFetcher(t, newStore(t, store.Options{MaxFlatBytes: c.flat}), origin, Options{})
				l := openLayer(t, f, of)
				n, err := l.Rush(t.Context(), c.limit)
				if n != c.asked || !c.want(err) || l.Stats().Present != c.here {
					t.Errorf("asked for %d blocks, %v; %+v", n, err, l.Stats())
				}
			})
		})
	}
}

// However many layers hang that are fetched ahead, another one is read at once.
func TestRushesLeaveSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := incompressible(0, blockSize, 1)
		hang := blocktest.Count(blocktest.Hang())
		f, err := New(newStore(t, store.Options{}), func(d digest.Digest) block.Source {
			if d == of.Digest {
				return of.Source()
			}
			return hang
		}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var rushes sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for seed := range uint64(DefaultSlots + 10) {
			l := openLayer(t, f, incompressible(1+seed, blockSize, 1))
			rushes.Go(func() { _, _ = l.Rush(ctx, everything) })
		}
		synctest.Wait()
		if now, _ := hang.Live(); now != DefaultSlots*3/4 {
			t.Errorf("%d blocks under way, want %d", now, DefaultSlots*3/4)
		}
		began := time.Now()
		if _, err := f.ReadBlock(t.Context(), of.Ref(0), nil); err != nil || time.Since(began) != 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		cancel()
		rushes.Wait()
	})
}
