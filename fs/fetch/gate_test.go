package fetch

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
	"github.com/faasnet/faasnet/fs/store"
)

// link is a source behind a line of that many bytes a second, which its
// transfers share packet by packet.
type link struct {
	src  block.Source
	rate int
	wire chan struct{} // held while a packet is on it; waiters are served in order
}

const packet = 1500

func newLink(src block.Source, rate int) *link {
	return &link{src, rate, make(chan struct{}, 1)}
}

func (l *link) ReadBlock(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
	for left := ref.Size; left > 0; left -= packet {
		select {
		case l.wire <- struct{}{}:
		case <-ctx.Done():
			return dst, ctx.Err()
		}
		time.Sleep(time.Duration(min(left, packet)) * time.Second / time.Duration(l.rate))
		<-l.wire
	}
	return l.src.ReadBlock(ctx, ref, dst)
}

// CD-10: at 10 Mbit/s, with a background fill running, an on-demand read takes
// at most twice its time without it, and the fill starts nothing beside it.
func TestCD10_FillYields(t *testing.T) {
	const size = 128 << 10
	synctest.Test(t, func(t *testing.T) {
		of := blocktest.NewLayer(1, size, 30*size)
		other := blocktest.NewLayer(2, size, 5*size)
		read := func(fill bool) (time.Duration, []block.Ref) {
			all := &blocktest.Memory{}
			of.Each(all.Put)
			other.Each(all.Put)
			origin := blocktest.Count(newLink(all, 10e6/8))
			f := newFetcher(t, newStore(t, store.Options{}), origin, Options{ReadAhead: -1})
			l := openLayer(t, f, other)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- f.Run(ctx) }()
			if fill {
				openLayer(t, f, of).Fill()
				time.Sleep(time.Second)
				if origin.Calls() < 5 {
					t.Errorf("the fill made %d requests in a second", origin.Calls())
				}
			}
			var worst time.Duration
			asked := origin.Calls()
			for _, i := range []int{1, 3} { // these do not compress
				began := time.Now()
				s, err := l.View(t.Context(), int64(i*size), 4096)
				if err != nil {
					t.Error(err)
				} else {
					s.Done()
				}
				worst = max(worst, time.Since(began))
			}
			refs := origin.Refs()[asked:]
			cancel()
			<-done
			f.Close()
			return worst, refs
		}
		alone, _ := read(false)
		shared, refs := read(true)
		if shared > 2*alone {
			t.Errorf("%v with the fill, %v without", shared, alone)
		}
		fills := slices.DeleteFunc(refs, func(r block.Ref) bool { return r.Blob == other.Digest })
		if len(fills) > 1 {
			t.Errorf("the fill started %d blocks beside two on-demand reads in a row", len(fills))
		}
	})
}

// A fill flight that an on-demand reader joins is on demand from then on, also
// while it waits for its slot.
func TestCD10_JoinedFillIsRaised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := blocktest.NewLayer(1, blockSize, 10*blockSize)
		gate := blocktest.NewGate(of.Source())
		origin := blocktest.Count(gate)
		const quiet = 100 * time.Millisecond
		f := newFetcher(t, newStore(t, store.Options{}), origin, Options{Slots: 1, FillQuiet: quiet})
		l := openLayer(t, f, of)
		read := func(p Priority, i int) {
			go func() {
				s, err := l.View(WithPriority(t.Context(), p), int64(i)*blockSize, 1)
				if err == nil {
					s.Done()
				}
			}()
			synctest.Wait()
		}
		read(OnDemand, 0) // has the slot
		read(Fill, 1)
		read(Fill, 2)
		read(Relay, 3)
		read(Order, 4)
		read(OnDemand, 5)
		read(OnDemand, 2) // joins
		if n := origin.Calls(); n != 1 {
			t.Fatalf("%d requests with one slot", n)
		}
		for range 6 {
			gate.Pass()
			time.Sleep(2 * quiet)
		}
		var got []int
		for _, r := range origin.Refs() {
			got = append(got, r.Number)
		}
		if want := []int{0, 5, 2, 3, 4, 1}; !slices.Equal(got, want) {
			t.Errorf("order %v, want %v", got, want)
		}
	})
}

// A registry that hangs takes the slots of its own layers only, and stops the
// fill of others for a moment only.
func TestHangingLayerLeavesSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead := blocktest.NewLayer(1, blockSize, 100*blockSize)
		good := blocktest.NewLayer(2, blockSize, 100*blockSize)
		var count sync.Map
		f, err := New(newStore(t, store.Options{}), func(d digest.Digest) block.Source {
			if d == good.Digest {
				return good.Source()
			}
			c, _ := count.LoadOrStore(d, blocktest.Count(blocktest.Hang()))
			return c.(*blocktest.Counter)
		}, Options{Slots: 12, ReadAhead: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		l := openLayer(t, f, dead)
		for i := range 100 {
			go func() { _, _ = l.View(t.Context(), int64(i)*blockSize, 1) }()
		}
		synctest.Wait()
		c, _ := count.Load(dead.Digest)
		if now, _ := c.(*blocktest.Counter).Live(); now != DefaultBlobSlots {
			t.Errorf("%d requests to the registry that hangs, want %d", now, DefaultBlobSlots)
		}
		began := time.Now()
		for i := range 3 {
			if _, err := f.ReadBlock(t.Context(), good.Ref(i), nil); err != nil {
				t.Error(err)
			}
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("the other layer waits %v", d)
		}
		if _, err := f.ReadBlock(WithPriority(t.Context(), Fill), good.Ref(9), nil); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d > staleAfter+DefaultFillQuiet {
			t.Errorf("the fill of the other layer waits %v", d)
		}
	})
}

// The bytes in flight are bounded, but a block larger than the bound passes.
func TestBytesInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Options{Slots: 10, BlobSlots: 10, FillSlots: 1, InFlightBytes: 100})
		enter := func(size int) (*ticket, chan error) {
			ticket := newTicket(block.Ref{Blob: digest.FromString(strconv.Itoa(size)), Size: size}, OnDemand)
			in := make(chan error, 1)
			go func() { in <- g.enter(t.Context(), ticket) }()
			synctest.Wait()
			return ticket, in
		}
		entered := func(in chan error) bool { synctest.Wait(); return len(in) == 1 }
		a, ain := enter(60)
		b, bin := enter(40)
		c, cin := enter(500)
		d, din := enter(1)
		if !entered(ain) || !entered(bin) || entered(cin) || entered(din) {
			t.Error("want the first two inside")
		}
		g.leave(a)
		if entered(cin) || entered(din) {
			t.Error("somebody passed the one that waits for room")
		}
		g.leave(b)
		if !entered(cin) || entered(din) {
			t.Error("want the large one inside alone")
		}
		g.leave(c)
		if !entered(din) {
			t.Error("want the last one inside")
		}
		g.leave(d)
		if g.active != 0 || g.bytes != 0 || g.urgent != 0 || len(g.taken) != 0 {
			t.Errorf("the empty gate holds %+v", g)
		}
	})
}

// Who gives up while it waits for a slot leaves no trace.
func TestGateGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Options{Slots: 1, BlobSlots: 1, FillSlots: 1, InFlightBytes: 100})
		first := newTicket(block.Ref{Size: 1}, Fill)
		if err := g.enter(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for p := range priorities {
			if err := g.enter(ctx, newTicket(block.Ref{Size: 1}, p)); err == nil {
				t.Errorf("priority %d got a second slot", p)
			}
		}
		g.leave(first)
		if g.active != 0 || g.fills != 0 || g.urgent != 0 {
			t.Errorf("the empty gate holds %+v", g)
		}
		again := newTicket(block.Ref{Size: 1}, OnDemand)
		if err := g.enter(t.Context(), again); err != nil {
			t.Error(err)
		}
		g.leave(again)
	})
}
