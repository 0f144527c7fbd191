package e2e

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/faasnet/faasnet/script/lab"
)

// A VM of four dies, is stopped or loses its link in the middle of a burst. The
// others have not one read that fails. PN-01 is the killed one, PN-02 the one
// that says nothing, CO-04 the one that vanishes without a word.
func TestFaultsInABurst(t *testing.T) {
	t.Run("one tree", func(t *testing.T) {
		f := newFleet(t, "complete", 4, "50mbit")
		for i, how := range lab.Faults() {
			for j, who := range []string{"root", "inner", "leaf"} {
				f.struck(t, how, who, byte(3*i+j))
			}
		}
	})
	t.Run("two stripes", func(t *testing.T) {
		f := newFleet(t, "striped", 4, "50mbit")
		for i, how := range lab.Faults() { // with four VMs none is a leaf in both
			f.struck(t, how, []string{"inner", "root", "inner"}[i], byte(9+i))
		}
	})
}

var casesOfFaults = map[lab.Fault]string{lab.Kill: "PN-01", lab.Stop: "PN-02", lab.LinkDown: "CO-04"}

// struck does it to a VM once a third of an image of its own has left the
// registry, and has another VM take its place afterwards.
func (f *fleet) struck(t *testing.T, how lab.Fault, who string, seed byte) {
	t.Helper()
	var victim *lab.VM
	t.Run(fmt.Sprintf("%s %s %s", casesOfFaults[how], who, how), func(t *testing.T) {
		f := f.in(t)
		k := f.madeOf(fmt.Sprintf("fault-%d", seed), 10*seed, 2, 5)
		before := must(f.link.Sent())(f)
		var mu sync.Mutex
		wait := f.burst(k, func(v *lab.VM) bool {
			mu.Lock()
			defer mu.Unlock()
			return v == victim
		})
		defer func() { wait(f.vms...) }()
		const patience = time.Minute
		for end := time.Now().Add(patience); must(f.link.Sent())(f)-before < k.bytes/3; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("a third of the image was not sent within %v", patience)
			}
		}
		mu.Lock()
		victim = f.of(who)
		mu.Unlock()
		began := time.Now()
		f.check(victim.Fail(how))
		others := slices.DeleteFunc(slices.Clone(f.vms), func(v *lab.VM) bool { return v == victim })
		wait(others...)
		ratio := float64(must(f.link.Sent())(f)-before) / float64(k.bytes)
		t.Logf("%s: the others were done %v later, no read failed; the registry sent %.2f times the image",
			victim.Name(), time.Since(began).Round(time.Millisecond), ratio)
		f.fetched("", others...)
		if ratio > 2.3 { // 1 + dead VMs, and what is around
			t.Errorf("the registry sent %.2f times the image", ratio)
		}
		if how != lab.Kill { // what it missed comes late, and must be right if it comes
			f.check(victim.Heal(how))
			wait(victim)
			f.fetched("", others...)
		}
	})
	if victim == nil || t.Failed() {
		t.FailNow()
	}
	f.soft(victim.Close())
	more := f.like
	more.Name, more.VMs = fmt.Sprintf("%s%d-", f.like.Name, seed), 1
	f.vms = append(slices.DeleteFunc(slices.Clone(f.vms), func(v *lab.VM) bool { return v == victim }), f.add(t, more)...)
}

// of is a root of a tree, an inner VM, which reads from one and has others below
// it, or that with the fewest below; of the latter one that is no root, if any is not.
func (f *fleet) of(who string) *lab.VM {
	f.Helper()
	nodes := must(f.tree.Nodes(f.Context()))(f)
	below := map[string]int{}
	for _, n := range nodes {
		for _, up := range n.Upstreams {
			below[up]++
		}
	}
	roots := func(n lab.Node) (c int) {
		for _, up := range n.Upstreams {
			if up == "" {
				c++
			}
		}
		return c
	}
	best := slices.MinFunc(nodes, func(a, b lab.Node) int {
		switch who {
		case "root":
			return cmp.Compare(roots(b), roots(a))
		case "inner":
			return cmp.Or(cmp.Compare(roots(a), roots(b)), cmp.Compare(below[b.VM], below[a.VM]))
		}
		return cmp.Or(cmp.Compare(below[a.VM], below[b.VM]), cmp.Compare(roots(a), roots(b)))
	})
	if n := below[best.VM]; who == "root" && roots(best) == 0 || who == "inner" && (n == 0 || roots(best) > 0) || who == "leaf" && n > 0 {
		f.Fatalf("no %s in %+v", who, nodes)
	}
	i := slices.IndexFunc(f.vms, func(v *lab.VM) bool { return v.Name() == best.VM })
	if i < 0 {
		f.Fatalf("%s is none of the fleet", best.VM)
	}
	return f.vms[i]
}
