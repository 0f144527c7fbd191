package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/faasnet/faasnet/cmd/internal/tree"
)

// creation is how long a container is being created while nobody reads.
const creation = 2 * time.Second

// fromStart starts the function of m on all vms. Each fetches the last layer, which
// is a start layer, while the container is created, and then reads all of it.
func (w *world) fromStart(vms []*vm, m *image) (ready []time.Duration, egress float64) {
	before, began := w.egress(), time.Now()
	last := len(m.layers) - 1
	ready = all(vms, func(v *vm) time.Duration {
		c, err := v.create(background, m)
		defer c.close()
		if err != nil {
			w.t.Error(err)
			return 0
		}
		rushed := make(chan struct{})
		go func() {
			defer close(rushed)
			if _, err := c.layers[last].Rush(background, m.bytes()); err != nil {
				w.t.Errorf("%s: %v", v.name, err)
			}
		}()
		time.Sleep(creation)
		if err := c.read(background, m.part(last, blockSize/4, 1), 1); err != nil {
			w.t.Error(err)
		}
		d := time.Since(began)
		<-rushed
		return d
	})
	return ready, float64(w.egress()-before) / float64(m.layers[last].Table.Bytes())
}

// N VMs that know from the start what they will read, in which order, and fetch it
// while the container is created, are ready hardly later than one is.
func TestStartLayerIsFlat(t *testing.T) {
	const rate = 50 * mbit
	m := newImage(1, blockSize, 100, 100, 300) // of the last, 3.15 s at this rate
	line := atLink(m.layers[2].Table.Bytes(), rate)
	ways := []time.Duration{latency, 2 * time.Millisecond}
	if !long() {
		ways = ways[:1]
	}
	for _, way := range ways {
		var one time.Duration
		for _, n := range []int{1, 16} {
			f := quick(tree.Striped, rate, m)
			f.latency = way
			inWorld(t, f, func(w *world) {
				vms := w.add(n)
				time.Sleep(bootTime)
				ready, egress := w.fromStart(vms, m)
				last := slices.Max(ready)
				if n == 1 {
					one = last
				}
				t.Logf("one way %5v, %2d VMs: the last READY after %v, %.3f x one VM; the line takes %v; %.3f x from the registry",
					way, n, last.Round(time.Millisecond), float64(last)/float64(one), line, egress)
				if last > one*115/100 || one > line*115/100 || egress > 1.1 {
					t.Error("want 1.15 x one VM, that 1.15 x what the line takes, and 1.1 x from the registry")
				}
			})
		}
	}
}
