package sim

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/faasnet/faasnet/cmd/internal/tree"
)

// role is what a VM is in its tree.
type role string

const (
	root  role = "root"  // of a stripe
	inner role = "inner" // has VMs above and two below
	leaf  role = "leaf"  // has the fewest below: in two stripes few have none
)

// of returns the VM that has a role in a function's tree.
func (w *world) of(function string, r role) *vm {
	nodes := w.tree.of(function).GetNodes()
	below := map[string]int{}
	for _, n := range nodes {
		for _, up := range n.Upstreams {
			below[up]++
		}
	}
	for few := range 2 {
		for _, n := range nodes {
			name, top := n.Peer.Vm, slices.Contains(n.Upstreams, "")
			if r == root && top || r == inner && !top && below[name] == 2 || r == leaf && !top && below[name] <= few {
				return w.named(name)
			}
		}
	}
	w.t.Fatalf("no %s in %v", r, nodes)
	return nil
}

// A VM dies, is stopped or loses its link in the midst of a burst. No other VM has
// a read that fails, and none is ready more than a second later for it.
func TestFaultInABurst(t *testing.T) {
	vms, blocks := 7, 32
	if long() {
		vms, blocks = 15, 64
	}
	m := newImage(1, blockSize, blocks, blocks)
	for stripes, form := range map[int]tree.Form{1: tree.Complete, 2: tree.Striped} {
		calm := inBurst(t, form, m, vms, nil)
		t.Logf("%d stripes, %d VMs, nothing happens: the last one is ready after %v, slowest read %v",
			stripes, vms, calm.last().Round(time.Millisecond), slices.Max(calm.slowest).Round(time.Millisecond))
		for what, do := range map[fault]func(*vm){
			kill:   func(v *vm) { v.dead.Store(true); v.host.Kill() },
			freeze: func(v *vm) { v.host.Freeze(true) },
			unlink: func(v *vm) { v.host.Cut(true) },
		} {
			for _, r := range []role{root, inner, leaf} {
				t.Run(fmt.Sprintf("%d stripes, %s %s", stripes, r, what), func(t *testing.T) {
					var victim *vm
					b := inBurst(t, form, m, vms, func(w *world) {
						time.Sleep(calm.last() / 3)
						victim = w.of(m.function, r)
						do(victim)
					})
					slowest := slices.Delete(b.slowest, victim.number, victim.number+1)
					added := b.last(victim.number) - calm.last()
					t.Logf("%v added, slowest read %v, %.2f images from the registry",
						added.Round(time.Millisecond), slices.Max(slowest).Round(time.Millisecond), b.egress)
					if err := b.err(victim.number); err != nil {
						t.Error(err)
					}
					if added > time.Second {
						t.Errorf("%v added", added)
					}
				})
			}
		}
	}
}

// inBurst is a burst of whole images in which something may happen. What it stops
// is set free when all others are ready.
func inBurst(t *testing.T, form tree.Form, m *image, vms int, happens func(*world)) (b burst) {
	t.Helper()
	inWorld(t, quick(form, slowLink, m), func(w *world) {
		all := w.add(vms)
		time.Sleep(bootTime)
		b = w.burst(all, m, m.whole(blockSize/2), 2, func() {
			if happens == nil {
				return
			}
			happens(w)
			time.Sleep(time.Minute)
			for _, v := range all {
				v.host.Freeze(false)
				v.host.Cut(false)
			}
		})
	})
	return b
}
