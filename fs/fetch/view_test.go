package fetch

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
	"github.com/faasnet/faasnet/fs/store"
)

// FU-08: views that span blocks of which some are present, at any offset and
// length, have exactly the bytes and the length that were asked for.
func TestFU08_RandomRanges(t *testing.T) {
	const size = 16 << 10
	of := blocktest.NewLayer(1, size, 5*size+100)
	for name, limit := range map[string]int64{"room": 0, "little room": 3 * size} {
		t.Run(name, func(t *testing.T) {
			f := newFetcher(t, newStore(t, store.Options{MaxFlatBytes: limit}), of.Source(), Options{})
			l := openLayer(t, f, of)
			for _, i := range []int{2, 4} {
				if s, err := l.View(t.Context(), int64(i*size), 1); err == nil {
					s.Done()
				}
			}
			var wg sync.WaitGroup
			for g := range 8 {
				wg.Go(func() {
					rnd := rand.New(rand.NewPCG(8, uint64(g)))
					for range 5000 / 8 {
						off := rnd.Int64N(l.Size())
						n := int(min(l.Size()-off, 1+rnd.Int64N(3*size)))
						s, err := l.View(t.Context(), off, n)
						if err != nil {
							t.Errorf("%d bytes at %d: %v", n, off, err)
							return
						}
						if s.File == nil && len(s.Data) != n || s.File != nil && s.Len != n {
							t.Errorf("%d bytes at %d: span of another length", n, off)
						}
						if got := content(t, s); !bytes.Equal(got, of.Stream[off:off+int64(n)]) {
							t.Errorf("%d bytes at %d differ", n, off)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// FU-09: a failure is not remembered.
func TestFU09_TransientFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := blocktest.NewLayer(1, blockSize, 3*blockSize)
		f := newFetcher(t, newStore(t, store.Options{}), blocktest.Fail(of.Source(), 2*originAttempts, errdefs.ErrUnavailable), Options{})
		l := openLayer(t, f, of)
		for i, want := range []bool{false, false, true, true} {
			s, err := l.View(t.Context(), blockSize, 100)
			if (err == nil) != want {
				t.Errorf("read %d: %v", i, err)
			}
			if err == nil && !bytes.Equal(content(t, s), of.Block(1)[:100]) {
				t.Errorf("read %d: wrong bytes", i)
			}
		}
		if st := l.Stats(); st.Failures != 2 || st.Waits != 3 || st.Hits != 1 {
			t.Errorf("stats %+v", st)
		}
	})
}

// GD-03: caches far smaller than the layer, readers and relays at once: right
// bytes, within the limits.
func TestGD03_SmallCache(t *testing.T) {
	const size, blocks = 16 << 10, 64
	of := blocktest.NewLayer(1, size, blocks*size)
	o := store.Options{MaxBytes: blocks / 8 * size, MaxFlatBytes: blocks / 8 * size}
	s := newStore(t, o)
	f := newFetcher(t, s, of.Source(), Options{})
	l := openLayer(t, f, of)
	l.Fill()
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = f.Run(ctx) })
	var readers sync.WaitGroup
	for g := range 8 {
		readers.Go(func() {
			rnd := rand.New(rand.NewPCG(3, uint64(g)))
			for range 200 {
				off := rnd.Int64N(l.Size() - 2*size)
				n := 1 + rnd.IntN(2*size)
				v, err := l.View(t.Context(), off, n)
				if err != nil {
					t.Error(err)
					return
				}
				if !bytes.Equal(content(t, v), of.Stream[off:off+int64(n)]) {
					t.Errorf("%d bytes at %d differ", n, off)
				}
			}
		})
	}
	for g := range 2 {
		readers.Go(func() {
			for i := range 2 * blocks {
				i = i * (g + 1) % blocks
				p, err := f.ReadBlock(WithPriority(t.Context(), Relay), of.Ref(i), nil)
				if err != nil || !bytes.Equal(p, of.Frame(i)) {
					t.Errorf("relay of block %d: wrong bytes or %v", i, err)
				}
			}
		})
	}
	readers.Wait()
	stop()
	wg.Wait()
	if u := s.Usage(); u.BlockBytes > o.MaxBytes || u.FlatBytes > o.MaxFlatBytes {
		t.Errorf("usage %+v beyond %+v", u, o)
	}
}

// An image that lies about the blocks of another image's layer gets its own
// file, not the other's.
func TestFalseTablePoisonsNobody(t *testing.T) {
	victim := blocktest.NewLayer(1, blockSize, 2*blockSize)
	evil := blocktest.NewLayer(2, blockSize, 2*blockSize)
	all := &blocktest.Memory{}
	victim.Each(all.Put)
	evil.Each(all.Put)
	f := newFetcher(t, newStore(t, store.Options{}), all, Options{})
	for i := range 2 { // the evil blocks are in the store, verified
		if _, err := f.ReadBlock(t.Context(), evil.Ref(i), nil); err != nil {
			t.Fatal(err)
		}
	}
	lie, err := f.Layer(victim.Digest, evil.Table)
	if err != nil {
		t.Fatal(err)
	}
	defer lie.Close()
	if s, err := lie.View(t.Context(), 0, 2*blockSize); err == nil {
		content(t, s)
	}
	l := openLayer(t, f, victim)
	s, err := l.View(t.Context(), 0, 2*blockSize)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(content(t, s), victim.Stream) {
		t.Error("the layer has the blocks of another one")
	}
}

// A block that is verified and is no zstd frame of its length is an error, for
// every read.
func TestBlockThatDoesNotDecode(t *testing.T) {
	of := blocktest.NewLayer(1, blockSize, 2*blockSize)
	entries := make([]block.Entry, 2)
	src := &blocktest.Memory{}
	for i := range entries {
		p := blocktest.Random(uint64(i), 100)
		ref := blocktest.SectionRef(of.Digest, int64(i)*100, p)
		ref.Number = i
		entries[i] = block.Entry{Size: 100, Sum: ref.Sum}
		src.Put(ref, p)
	}
	table, err := block.NewTable(blockSize, 2*blockSize, entries)
	if err != nil {
		t.Fatal(err)
	}
	f := newFetcher(t, newStore(t, store.Options{}), src, Options{})
	l, err := f.Layer(of.Digest, table)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 2 {
		if _, err := l.View(t.Context(), 0, 10); !errdefs.IsDataLoss(err) {
			t.Errorf("%v, want data loss", err)
		}
	}
}

// A reader that goes through a layer finds the next blocks there; one that
// jumps about causes no fetch that it does not need.
func TestReadAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := blocktest.NewLayer(1, blockSize, 64*blockSize)
		read := func(l *Layer, i int) {
			t.Helper()
			for _, off := range []int64{0, 1000, 3000} {
				s, err := l.View(t.Context(), int64(i)*blockSize+off, 1000)
				if err != nil {
					t.Fatal(err)
				}
				s.Done()
			}
			synctest.Wait()
		}
		open := func() (*blocktest.Counter, *Layer) {
			origin := blocktest.Count(blocktest.Delay(of.Source(), 10*time.Millisecond))
			return origin, openLayer(t, newFetcher(t, newStore(t, store.Options{}), origin, Options{}), of)
		}
		origin, l := open()
		for i := range 20 {
			read(l, i)
			time.Sleep(20 * time.Millisecond)
		}
		if st := l.Stats(); st.Waits > 4 || st.BlocksAhead < 16 {
			t.Errorf("sequential: %+v", st)
		}
		if n := origin.Calls(); n > 20+DefaultReadAhead {
			t.Errorf("sequential: %d blocks for 20", n)
		}

		origin, l = open()
		for i := range 20 {
			read(l, i*7%64)
		}
		if n := origin.Calls(); n != 20 {
			t.Errorf("jumping about: %d blocks for 20", n)
		}

		// Two files read in turns are two streams, to the end of the layer.
		_, l = open()
		for i := range 32 {
			read(l, i)
			read(l, 32+i)
			time.Sleep(20 * time.Millisecond)
		}
		if st := l.Stats(); st.Waits > 8 || st.Present != 64 || st.BlocksFetched != 64 {
			t.Errorf("in turns: %+v", st)
		}
	})
}

// FU-12: the bytes of a span stay when the layer is closed, and the file is dropped.
func TestFU12_SpanOutlivesLayer(t *testing.T) {
	of := blocktest.NewLayer(1, blockSize, 2*blockSize)
	s := newStore(t, store.Options{MaxFlatBytes: 2 * blockSize})
	f := newFetcher(t, s, of.Source(), Options{})
	l := openLayer(t, f, of)
	v, err := l.View(t.Context(), 0, 2*blockSize)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	other := blocktest.NewLayer(2, blockSize, 2*blockSize)
	all := &blocktest.Memory{}
	other.Each(all.Put)
	g := newFetcher(t, s, all, Options{})
	w, err := openLayer(t, g, other).View(t.Context(), 0, 2*blockSize)
	if err != nil || !bytes.Equal(content(t, w), other.Stream) {
		t.Error("the other layer differs", err)
	}
	if !bytes.Equal(content(t, v), of.Stream) {
		t.Error("a span changed")
	}
}

// OnTouch is told of each block once, in the order of reading, and not of what
// is fetched ahead.
func TestOnTouch(t *testing.T) {
	of := blocktest.NewLayer(1, blockSize, 70*blockSize)
	var touched []block.Ref
	f := newFetcher(t, newStore(t, store.Options{}), of.Source(), Options{OnTouch: func(r block.Ref) { touched = append(touched, r) }})
	l := openLayer(t, f, of)
	for _, i := range []int{5, 6, 7, 8, 40, 5, 8, 69} {
		off, n := of.Table.Span(i)
		s, err := l.View(t.Context(), off, n)
		if err != nil {
			t.Fatal(err)
		}
		content(t, s)
	}
	if s, err := l.View(WithPriority(t.Context(), Fill), 0, 10); err != nil {
		t.Fatal(err)
	} else {
		content(t, s)
	}
	want := []block.Ref{of.Ref(5), of.Ref(6), of.Ref(7), of.Ref(8), of.Ref(40), of.Ref(69)}
	if !slices.Equal(touched, want) {
		t.Errorf("told of %v", touched)
	}
}
