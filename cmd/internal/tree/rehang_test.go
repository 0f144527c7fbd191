package tree

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestRehang(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	each(t, func(t *testing.T, form Form, tr Tree) {
		for n := range 200 {
			if _, err := tr.Insert(VM(fmt.Sprint("vm", n))); err != nil {
				t.Fatal(err)
			}
			before := map[edge]VM{}
			for vm := range tr.All() {
				for s := range tr.Stripes() {
					before[edge{vm, s}] = tr.Upstream(vm, s)
				}
			}
			// Scattered over what anybody may say, the tree is still one.
			epoch := tr.Epoch()
			Rehang(tr, func(VM, int) VM { return VM(fmt.Sprint("vm", r.IntN(n+2))) })
			check(t, tr, form)
			if form == Striped && tr.Epoch() <= epoch {
				t.Fatal("the epoch stands still")
			}
			Rehang(tr, func(vm VM, s int) VM { return before[edge{vm, s}] })
			check(t, tr, form)
			for e, up := range before {
				if now := tr.Upstream(e.vm, e.stripe); now != up {
					t.Fatalf("%d VMs, stripe %d: %s reads from %q, want %q", n+1, e.stripe, e.vm, now, up)
				}
			}
		}
		for n := range 150 { // what comes after finds it whole
			if _, err := tr.Delete(VM(fmt.Sprint("vm", n))); err != nil {
				t.Fatal(err)
			}
			check(t, tr, form)
		}
	})
}
