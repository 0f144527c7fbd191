package sim

import (
	"testing"
	"time"

	"github.com/faasnet/faasnet/cmd/internal/tree"
)

// The root of a burst is killed. All others are READY at most a second later than
// without that, no read of theirs fails, and the registry sends little more than
// the image: what nobody else had yet. With two stripes that is what was on its way
// through the root. In one tree a root receives at the rate of its link and passes on
// at half of it, so that half of what it has had by then was lost with it.
func TestRootIsKilledInABurst(t *testing.T) {
	m := newImage(1, blockSize, 48, 48)
	sizes := []int{16}
	if long() {
		sizes = append(sizes, 64)
	}
	t.Log("form      VMs  killed after  READY s, without, added  images from the registry")
	for _, form := range []tree.Form{tree.Striped, tree.Complete} {
		for _, n := range sizes {
			calm := inBurst(t, form, m, n, nil)
			t.Logf("%-8s %4d             -  %7.2f                  %.3f", form, n, calm.last().Seconds(), calm.egress)
			for _, part := range []time.Duration{10, 4, 2} {
				var victim *vm
				after := calm.last() / part
				b := inBurst(t, form, m, n, func(w *world) {
					time.Sleep(after)
					victim = w.of(m.function, root)
					victim.dead.Store(true)
					victim.host.Kill()
				})
				last := b.last(victim.number)
				t.Logf("%-8s %4d  %10.2f s  %7.2f  %7.2f  %5.2f  %.3f", form, n, after.Seconds(), last.Seconds(), calm.last().Seconds(), (last - calm.last()).Seconds(), b.egress)
				if err := b.err(victim.number); err != nil {
					t.Error(err)
				}
				more := 0.15
				if form == tree.Complete {
					more += 1 / float64(part)
				}
				if last > calm.last()+time.Second || b.egress > calm.egress+more {
					t.Errorf("want 1 s and %.2f images more at most", more)
				}
			}
		}
	}
}
