package sim

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/faasnet/faasnet/cmd/internal/tree"
)

// Who computes has a core for himself, until there are more of them than cores.
func TestCoresTakeTurns(t *testing.T) {
	for computing, want := range map[int]time.Duration{1: time.Second, 2: time.Second, 3: 1500 * time.Millisecond, 8: 4 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			c, began, done := newCores(2), time.Now(), make(chan struct{})
			for range computing {
				go func() {
					c.use(time.Second)
					done <- struct{}{}
				}()
			}
			for range computing {
				<-done
			}
			if took := time.Since(began); took < want || took > want+want/20 {
				t.Errorf("%d of one second each take %v, want %v", computing, took, want)
			}
		})
	}
}

// small is a burst that is over quickly.
func small(system string, vms int) Burst {
	return Burst{
		System: system, Form: tree.Striped, VMs: vms, Rate: 100_000_000, Registry: 100_000_000, Cores: 2, Scale: 32,
		Image: Image{Layers: 4, Bytes: 64 << 20, Section: 64 << 10, Blocks: 24, Block: 512 << 10},
		Costs: Costs{Receive: 2e-9, Send: 1e-9, Decode: 1e-9},
		Start: Start{Pull: Phase{0.1, 0.05}, Create: Phase{0.1, 0.15}, Run: Phase{0.5, 0.5}, Serve: 0.1, Unpack: 1},
	}
}

// On a wire of 100 Mbit/s a start takes what its bytes and its CPU time take, and
// many take the registry's link where there is no tree.
func TestBurstTakesWhatItMust(t *testing.T) {
	const wire = 24 * 512 << 10 * 8 / 100e6 // seconds
	for _, c := range []struct {
		b          Burst
		from, upto float64
	}{
		{small(Tree, 1), 0.8 + wire/2, 1.1 + wire}, // what the function computes goes on while blocks are fetched ahead
		{small(Tree, 8), 0.8 + wire/2, 1.5 + wire},
		{small(NoTree, 8), 7.5 * wire, 1.5 + 8*wire},
		{small(FullPull, 4), 4*64<<20*8/100e6 + 0.6, 4*64<<20*8/100e6*1.1 + 2},
	} {
		f := c.b.Run(t)
		for _, s := range f.Starts {
			if s.Error != "" || s.Ready < c.from || s.Ready > c.upto {
				t.Errorf("%v: READY after %.2f s, want %.2f to %.2f: %s", c.b, s.Ready, c.from, c.upto, s.Error)
			}
		}
		t.Logf("%v: %+v", c.b, f)
	}
}
