package peer

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
)

// conns returns the connections of r to vm that live.
func (r *Relay) connsTo(vm string) (out []*conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		if c.vm == vm && c.ctx.Err() == nil {
			out = append(out, c)
		}
	}
	return out
}

// crossing is the place of a VM that reads one stripe from another, which reads
// the other stripe from it.
func crossing(stripe int, token string, other Peer) Place {
	p := Place{Epoch: 1, Token: token, Stripes: make([]Stripe, 2)}
	p.Stripes[stripe].Upstream = other
	p.Stripes[1-stripe].Downstream = []Peer{other}
	return p
}

// Two VMs that dial each other at the same moment end with one connection, that
// of the smaller name. What was asked on the other one is answered.
func TestTwoThatDialEachOther(t *testing.T) {
	for _, reading := range []bool{false, true} {
		inWorld(t, 16, func(w *world) {
			t := w.t
			a, b := w.start("a", 10*mbit), w.start("b", 10*mbit)
			a.place(crossing(0, a.token(), b.peer()))
			b.place(crossing(1, b.token(), a.peer()))
			if reading {
				w.all([]*vm{a, b}, (*vm).readAll)
			}
			time.Sleep(3 * time.Second)
			synctest.Wait()
			toB, toA := a.relay.connsTo("b"), b.relay.connsTo("a")
			if len(toB) != 1 || len(toA) != 1 || !toB[0].dialed || toA[0].dialed {
				t.Fatalf("reading %t: a has %d connections, b %d; the one that is left is of the larger name", reading, len(toB), len(toA))
			}
			if a.neighbourOf(b).live() != toB[0] || b.neighbourOf(a).live() != toA[0] {
				t.Error("another connection is used")
			}
			if a.relay.Children() != 1 || b.relay.Children() != 1 {
				t.Errorf("%d VMs follow a, %d b", a.relay.Children(), b.relay.Children())
			}
			w.all([]*vm{a, b}, (*vm).readAll)
			if most, total := w.asked(); most != 1 || total != 16 {
				t.Errorf("the registry was asked %d times, %d times for one", total, most)
			}
			if n := len(a.reported(Unreachable)) + len(b.reported(Unreachable)); n != 0 {
				t.Errorf("%d reports", n)
			}
		})
	}
}

// A VM that asks one which is connected to it already does so on that connection.
func TestWhoHasComeIsAskedThere(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		t := w.t
		a, b := w.start("a", 0), w.start("b", 0)
		a.place(Place{Epoch: 1, Token: a.token(), Stripes: []Stripe{{Downstream: []Peer{b.peer()}}}})
		b.below(1, []*vm{a})
		time.Sleep(time.Second)
		a.below(2, []*vm{b}) // the other way round now
		b.place(Place{Epoch: 2, Token: b.token(), Stripes: []Stripe{{Downstream: []Peer{a.peer()}}}})
		time.Sleep(time.Second)
		a.mustRead(0, 1, 2, 3)
		if n, m := len(a.relay.connsTo("b")), len(b.relay.connsTo("a")); n != 1 || m != 1 {
			t.Errorf("%d and %d connections", n, m)
		}
		if !b.has(3) {
			t.Error("a did not read from b")
		}
	})
}

func TestTwoThatDialEachOtherOnSockets(t *testing.T) {
	l := blocktest.NewLayer(2, 64<<10, 20*64<<10)
	refs := make([]block.Ref, l.Table.Len())
	for i := range refs {
		refs[i] = l.Ref(i)
	}
	for range 20 {
		catalog := catalogOf(l)
		a, atA := realRelay(t, "a", &fake{flying: l.Source()}, catalog)
		b, atB := realRelay(t, "b", &fake{flying: l.Source()}, catalog)
		if err := a.Place(function, crossing(0, tokenOf(t, "a"), atB)); err != nil {
			t.Fatal(err)
		}
		if err := b.Place(function, crossing(1, tokenOf(t, "b"), atA)); err != nil {
			t.Fatal(err)
		}
		for _, r := range []*Relay{a, b} {
			for _, ref := range refs {
				for _, s := range r.Sources(ref) {
					p, err := s.ReadBlock(context.Background(), ref, nil)
					if err != nil || !slices.Equal(p, l.Frame(ref.Number)) {
						t.Fatalf("%s reads %v: %v", r.opts.VM, ref, err)
					}
				}
			}
		}
		for end := time.Now().Add(30 * time.Second); len(a.connsTo("b")) != 1 || len(b.connsTo("a")) != 1; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d and %d connections", len(a.connsTo("b")), len(b.connsTo("a")))
			}
		}
	}
}
