package peer

import (
	"fmt"
	"testing"

	"github.com/faasnet/faasnet/peer/identity"
)

// A connection between two VMs may last for longer than any function: what either
// side remembers of functions that nobody has a place in any more is bounded.
func TestFunctionsThatAreLeftAreForgotten(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		t := w.t
		a := w.start("a", 0)
		c, b := w.dial("b", a)
		const most = 4 * maxForeign
		for i := range most {
			fn := fmt.Sprint("function ", i)
			c.open(fn, b.token(func(c *identity.Claims) { c.Function = fn }))
			if _, ok := a.relay.admitGet(fn, "b", false); !ok {
				t.Fatalf("function %d: not admitted", i)
			}
		}
		c.mu.Lock()
		leases := len(c.leases)
		c.mu.Unlock()
		if leases > maxLeases {
			t.Errorf("%d functions are remembered as open, want %d at most", leases, maxLeases)
		}
		a.relay.mu.Lock()
		defer a.relay.mu.Unlock()
		if n := len(a.relay.children); n > len(a.relay.places)+maxForeign {
			t.Errorf("of %d functions it is remembered who reads them, want %d at most", n, maxForeign)
		}
	})
}

// Those in which a VM has a place do not make room for others.
func TestFunctionsOfOursStay(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		t := w.t
		a := w.start("a", 0)
		a.below(1, nil)
		c, b := w.dial("b", a)
		b.below(1, []*vm{a})
		kept := c.open(function, b.token())
		a.relay.admitGet(function, "b", false)
		for i := range 4 * maxForeign {
			fn := fmt.Sprint("function ", i)
			c.open(fn, b.token(func(c *identity.Claims) { c.Function = fn }))
			a.relay.admitGet(fn, "b", false)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.leases[function] != kept {
			t.Error("a function that we have a place in was forgotten")
		}
		a.relay.mu.Lock()
		defer a.relay.mu.Unlock()
		if k := a.relay.children[function]; k == nil || len(k.strangers) != 1 {
			t.Errorf("who reads a function that we have a place in was forgotten: %v", k)
		}
	})
}
