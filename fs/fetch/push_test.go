package fetch

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
	"github.com/faasnet/faasnet/fs/store"
)

// sender remembers what it is told.
type sender struct {
	urged int
	bad   error
}

func (s *sender) Urge()             { s.urged++ }
func (s *sender) Corrupt(err error) { s.bad = err }

// send pushes p into a sink piece by piece, and says whether all was wanted.
func send(sink block.Sink, p []byte, end error) bool {
	for n := 0; n < len(p); {
		time.Sleep(pace)
		m := min(n+piece, len(p))
		copy(sink.Buffer()[n:m], p[n:m])
		n = m
		if !sink.Arrived(n) {
			sink.End(errors.New("cancelled"))
			return false
		}
	}
	sink.End(end)
	return true
}

func TestOffer(t *testing.T) {
	of := blocktest.Cut(blocktest.Random(1, blockSize), blockSize)
	ref, frame := of.Ref(0), of.Frame(0)
	wrong := bytes.Clone(frame)
	wrong[10] ^= 1
	for name, c := range map[string]struct {
		bytes  []byte
		end    error
		reader bool // somebody wants the block
		origin int  // requests to it
		blamed bool
		stored bool
	}{
		"whole":              {frame, nil, false, 0, false, true},
		"whole, with reader": {frame, nil, true, 0, false, true},
		"abort":              {frame, errdefs.ErrAborted, false, 0, false, false},
		"abort, with reader": {frame, errdefs.ErrAborted, true, 1, false, true},
		"wrong":              {wrong, nil, false, 0, true, false},
		"wrong, with reader": {wrong, nil, true, 1, true, true},
		"short":              {frame[:piece], nil, false, 0, false, false},
		"short, with reader": {frame[:piece], nil, true, 1, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore(t, store.Options{})
				origin := blocktest.Count(of.Source())
				f := newFetcher(t, s, origin, Options{})
				by := &sender{}
				sink, err := f.Offer(t.Context(), ref, by)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := f.Offer(t.Context(), ref, &sender{}); !errdefs.IsAlreadyExists(err) {
					t.Errorf("offered twice: %v", err)
				}
				read := make(chan error, 1)
				if c.reader {
					go func() {
						p, err := f.ReadBlock(t.Context(), ref, nil)
						if err == nil && !bytes.Equal(p, frame) {
							err = errors.New("wrong bytes")
						}
						read <- err
					}()
					synctest.Wait()
				}
				if !send(sink, c.bytes, c.end) {
					t.Error("nobody wants the block")
				}
				if c.reader {
					if err := <-read; err != nil {
						t.Error(err)
					}
				}
				synctest.Wait()
				if n := origin.Calls(); n != c.origin {
					t.Errorf("%d requests to the origin, want %d", n, c.origin)
				}
				if errdefs.IsDataLoss(by.bad) != c.blamed {
					t.Errorf("blamed for %v", by.bad)
				}
				if (by.urged == 1) != c.reader {
					t.Errorf("urged %d times", by.urged)
				}
				if s.Has(ref) != c.stored {
					t.Errorf("stored: %v", s.Has(ref))
				}
				switch sink, err := f.Offer(t.Context(), ref, &sender{}); {
				case err == nil:
					sink.End(errdefs.ErrAborted)
					if c.stored {
						t.Error("taken although it is stored")
					}
				case !c.stored:
					t.Errorf("a failed push left a mark: %v", err)
				}
			})
		})
	}
}

// A push that stalls is hedged only for somebody who waits, and the sender hears
// that its block is no longer wanted.
func TestOfferThatStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := blocktest.NewLayer(1, blockSize, blockSize)
		origin := blocktest.Count(of.Source())
		f := newFetcher(t, newStore(t, store.Options{}), origin, Options{})
		sink, err := f.Offer(t.Context(), of.Ref(0), &sender{})
		if err != nil {
			t.Fatal(err)
		}
		copy(sink.Buffer(), of.Frame(0)[:10])
		if !sink.Arrived(10) {
			t.Error("not wanted")
		}
		time.Sleep(8 * time.Second)
		if n := origin.Calls(); n != 0 {
			t.Errorf("%d requests to the origin for a block that nobody wants", n)
		}
		began := time.Now()
		if p, err := f.ReadBlock(t.Context(), of.Ref(0), nil); err != nil || !bytes.Equal(p, of.Frame(0)) {
			t.Errorf("%d bytes, %v", len(p), err)
		}
		if d := time.Since(began); d > maxHedge/2 {
			t.Errorf("hedged after %v", d)
		}
		synctest.Wait()
		if sink.Arrived(20) {
			t.Error("still wanted")
		}
		sink.End(errdefs.ErrAborted)
	})
}

// A push that has begun to come and waits behind other blocks looks slow for a
// moment. That its sender, asked for the block, says that it is sending it, is no
// reason to ask the origin: that is asked if the push crawls on.
func TestOfferThatIsSlowForAMoment(t *testing.T) {
	for name, crawls := range map[string]bool{"for a moment": false, "for good": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				of := blocktest.NewLayer(1, blockSize, blockSize)
				ref, frame := of.Ref(0), of.Frame(0)
				origin := blocktest.Count(of.Source())
				var asked atomic.Bool
				sends := block.SourceFunc(func(_ context.Context, _ block.Ref, dst []byte) ([]byte, error) {
					asked.Store(true)
					return dst, errdefs.ErrAlreadyExists
				})
				f := newFetcher(t, newStore(t, store.Options{}), origin, Options{Upstreams: &peers{sources: []block.Source{sends}}})
				sink, err := f.Offer(t.Context(), ref, &sender{})
				if err != nil {
					t.Fatal(err)
				}
				read := make(chan error, 1)
				go func() {
					_, err := f.ReadBlock(t.Context(), ref, nil)
					read <- err
				}()
				n := 0
				arrive := func(more int) bool {
					time.Sleep(50 * time.Millisecond)
					n += copy(sink.Buffer()[n:], frame[n:n+more])
					synctest.Wait()
					return sink.Arrived(n)
				}
				for !asked.Load() {
					arrive(10)
				}
				for range 10 { // its turn is to come; the sender lives
					arrive(0)
				}
				want := 0
				if crawls {
					want = 1
					for arrive(10) {
					}
				} else {
					arrive(ref.Size - n)
				}
				sink.End(nil)
				if err := <-read; err != nil {
					t.Error(err)
				}
				if n := origin.Calls(); n != want {
					t.Errorf("%d requests to the origin, want %d", n, want)
				}
			})
		})
	}
}
