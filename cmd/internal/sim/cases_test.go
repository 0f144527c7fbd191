package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/peer"
)

// The cases of docs/cases.md that are about a whole fleet.

// PN-01: seven VMs, and an inner one dies while its two children stream.
func TestPN01_InnerVMIsKilled(t *testing.T) {
	m := newImage(1, blockSize, 64)
	inWorld(t, quick(tree.Complete, slowLink, m), func(w *world) {
		vms := w.add(7)
		time.Sleep(bootTime)
		var dead *vm
		b := w.burst(vms, m, m.whole(blockSize/2), 2, func() {
			time.Sleep(time.Second)
			dead = w.of(m.function, inner)
			dead.dead.Store(true)
			dead.host.Kill()
		})
		if err := b.err(dead.number); err != nil {
			t.Error(err)
		}
		times, again := most(w.asked.since(0))
		slowest := slices.Max(slices.Delete(b.slowest, dead.number, dead.number+1))
		t.Logf("slowest read %v, a block was asked of the registry %d times at most, %d again", slowest, times, again)
		if slowest > 2*time.Second || times > 2 {
			t.Errorf("slowest read %v, want 2 s; %d times, want one more than VMs that died", slowest, times)
		}
	})
}

// PN-03: one VM flips a bit in all that it relays. Nobody stores or reads that, and
// it is the one whom others report.
func TestPN03_LiarInTheTree(t *testing.T) {
	m := newImage(1, blockSize, 64)
	f := quick(tree.Complete, slowLink, m)
	f.hooks.gives = func(v *vm, b peer.Blocks) peer.Blocks {
		if v.number == 0 {
			b = lies{b}
		}
		return b
	}
	inWorld(t, f, func(w *world) {
		vms := w.add(7)
		time.Sleep(bootTime)
		b := w.whole(vms, m, nil)
		for _, v := range vms {
			if err := v.holdsRight(m); err != nil {
				t.Error(err)
			}
			v.mu.Lock()
			for _, r := range v.reports {
				if r.Fault == peer.Corrupt && r.VM != vms[0].name {
					t.Errorf("%s has reported %s", v.name, r.VM)
				}
			}
			v.mu.Unlock()
		}
		t.Logf("%.2f images from the registry", b.egress)
	})
}

// PN-04: eight VMs, a registry whose link is a tenth of theirs.
func TestPN04_SlowRegistry(t *testing.T) {
	m := newImage(1, blockSize, 64)
	for _, form := range []tree.Form{tree.Striped, tree.Complete} {
		f := quick(form, fastLink, m)
		f.registry = fastLink / 10
		inWorld(t, f, func(w *world) {
			vms := w.add(8)
			time.Sleep(bootTime)
			b := w.whole(vms, m, nil)
			if b.egress > 1.3 {
				t.Errorf("%s: %.2f images from the registry", form, b.egress)
			}
			for _, v := range vms {
				if slices.Contains(upstreams(v.place(m.function)), "") {
					continue // a root
				}
				if _, got := v.up.relay.Relayed(); float64(got) < 0.8*float64(m.bytes()) {
					t.Errorf("%s: %s has %d of %d bytes from peers", form, v.name, got, m.bytes())
				}
			}
		})
	}
}

// PN-11: without a coordinator, or with all relays out of reach, VMs read from the
// registry as fast as without a tree, but for the time that a join may take.
func TestPN11_OnlyTheRegistryIsLeft(t *testing.T) {
	m := newImage(1, blockSize, 32)
	var without time.Duration
	for _, what := range []string{"no tree", "no coordinator", "no relay"} {
		f := quick(tree.Striped, slowLink, m)
		f.registry, f.noTree, f.deaf = 8*slowLink, what == "no tree", what == "no relay"
		inWorld(t, f, func(w *world) {
			vms := w.add(4)
			time.Sleep(bootTime)
			if what == "no coordinator" {
				w.tree.kill()
			}
			took := w.whole(vms, m, nil).last()
			t.Logf("%s: %v", what, took.Round(time.Millisecond))
			if without == 0 {
				without = took
			}
			if took > without*11/10+500*time.Millisecond {
				t.Errorf("%s: %v, without a tree %v", what, took, without)
			}
		})
	}
}

// CO-03: the coordinator is killed in the midst of a burst, and comes back after
// 3 s, remembering nothing.
func TestCO03_CoordinatorRestartsInABurst(t *testing.T) {
	m := newImage(1, blockSize, 64, 64)
	// Who comes back first stands higher. In one tree a line is full all the time,
	// so whoever comes to stand lower gets what it has missed later.
	for form, atMost := range map[tree.Form]time.Duration{tree.Striped: time.Second, tree.Complete: 3 * time.Second} {
		calm := inBurst(t, form, m, 8, nil)
		inWorld(t, quick(form, slowLink, m), func(w *world) {
			vms := w.add(8)
			time.Sleep(bootTime)
			var back time.Duration
			b := w.whole(vms, m, func() {
				time.Sleep(time.Second)
				w.tree.restart(3 * time.Second)
				began := time.Now()
				within(time.Minute, func() bool { return len(w.tree.of(m.function).GetNodes()) == len(vms) })
				back = time.Since(began)
			})
			added := b.last() - calm.last()
			t.Logf("%s: all are back after %v; %v added, %.3f images from the registry", form, back, added, b.egress)
			if back > 5*time.Second || added > atMost || b.egress > 1.1 {
				t.Errorf("%s: want 5 s, %v and 1.1", form, atMost)
			}
		})
	}
}

// CO-04: a VM vanishes without a word. Within three heartbeats it is in nobody's
// place; of the last one nothing remains, and the next to come is the root.
func TestCO04_VMVanishes(t *testing.T) {
	m := newImage(1, blockSize, 4)
	inWorld(t, quick(tree.Striped, slowLink, m), func(w *world) {
		vms := w.add(4)
		time.Sleep(bootTime)
		w.whole(vms, m, nil)
		for i, v := range vms {
			v.host.Cut(true)
			rest := vms[i+1:]
			named := func() bool {
				for _, o := range rest {
					p := o.place(m.function)
					for _, s := range p.Stripes {
						for _, n := range append(append(s.Ancestors, s.Downstream...), s.Upstream) {
							if n.VM == v.name {
								return true
							}
						}
					}
				}
				return len(w.tree.of(m.function).GetNodes()) > len(rest)
			}
			if !within(time.Second, func() bool { return !named() }) {
				t.Errorf("%s is still in the tree", v.name)
			}
		}
		next := w.add(1)
		time.Sleep(bootTime)
		w.whole(next, m, nil)
		if up := upstreams(next[0].place(m.function)); !slices.Equal(up, []string{"", ""}) {
			t.Errorf("who comes next reads from %v", up)
		}
		for _, v := range vms {
			v.host.Cut(false)
		}
	})
}

// CO-07: a coordinator that does not answer costs a start 500 ms, once; one that
// names a dead upstream costs little and hears of it once.
func TestCO07_CoordinatorThatIsNoHelp(t *testing.T) {
	m := newImage(1, blockSize, 32)
	alone := inBurst(t, tree.Complete, m, 1, nil).last()
	for _, what := range []string{"does not answer", "refuses connections", "names a dead VM"} {
		t.Run(what, func(t *testing.T) {
			f := quick(tree.Complete, slowLink, m)
			inWorld(t, f, func(w *world) {
				vms := w.add(2)
				time.Sleep(bootTime)
				switch what {
				case "does not answer":
					w.tree.host.Freeze(true)
				case "refuses connections":
					w.tree.kill()
				case "names a dead VM":
					w.whole(vms[:1], m, nil)
					vms[0].dead.Store(true)
					vms[0].host.Cut(true)
				}
				b := w.whole(vms[1:], m, nil)
				took := b.ready[0]
				t.Logf("%v, alone %v", took.Round(time.Millisecond), alone.Round(time.Millisecond))
				if took > alone+time.Second || what != "names a dead VM" && took > alone+550*time.Millisecond {
					t.Errorf("%v, alone %v", took, alone)
				}
				w.tree.host.Freeze(false) // its answer comes now
				time.Sleep(5 * time.Second)
				w.whole(vms[1:], m, nil)
				count := map[peer.Report]int{}
				for _, r := range vms[1].reports {
					if count[r]++; count[r] > 1 && r.Fault != peer.Quiet {
						t.Errorf("%v was reported again", r)
					}
				}
				vms[0].host.Cut(false)
			})
		})
	}
}
