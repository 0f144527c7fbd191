package peer

import (
	"context"
	"testing"
	"time"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
)

// registry is one whose link has a rate, in bytes a second, shared by all.
func (w *world) registry(rate int64) {
	line := make(chan struct{}, 1)
	src := blocktest.Count(block.SourceFunc(func(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
		select {
		case line <- struct{}{}:
			defer func() { <-line }()
		case <-ctx.Done():
			return dst, ctx.Err()
		}
		time.Sleep(time.Duration(int64(ref.Size)*int64(time.Second)/rate) + w.net.Latency)
		return w.layer.Source().ReadBlock(ctx, ref, dst)
	}))
	w.origin = src
	w.from = func(string) block.Source { return src }
}

// small is a block size for tests of many blocks: sums and disks take real time.
const small = 16 << 10

// PN-04: eight VMs start at once, the registry's link is a tenth of theirs. The
// registry gives each block about once, and the last VM is done soon after what
// the registry's link needs.
func TestPN04_RegistryIsReadOnce(t *testing.T) {
	for name, c := range map[string]struct {
		start func(w *world, n int, rate int64) []*vm
	}{"two stripes": {(*world).striped}, "one": {(*world).binary}} {
		t.Run(name, func(t *testing.T) {
			inWorldOf(t, 128, small, func(w *world) {
				t := w.t
				const rate = 10 * mbit
				w.registry(rate)
				vms := c.start(w, 8, 10*rate)
				began := time.Now()
				w.all(vms, (*vm).readAll)
				took := time.Since(began)
				bound := time.Duration(w.layer.Table.Bytes() * int64(time.Second) / rate)
				most, total := w.asked()
				t.Logf("%v, the registry's link needs %v; asked %d times for %d blocks", took, bound, total, w.layer.Table.Len())
				if total*10 > 13*w.layer.Table.Len() {
					t.Errorf("the registry was asked %d times for %d blocks, %d times for one", total, w.layer.Table.Len(), most)
				}
				if took > bound*3/2 {
					t.Errorf("took %v", took)
				}
				for _, v := range vms {
					_, received := v.relay.Relayed()
					t.Logf("%s: %d bytes from VMs, %d moved, %d pushes, %d dropped, %d gets, %d unwanted", v.name, received,
						v.relay.metrics.moved.Load(), v.relay.metrics.pushes.Load(), v.relay.metrics.dropped.Load(), v.relay.metrics.gets.Load(), v.relay.metrics.unwanted.Load())
				}
			})
		})
	}
}

// With two stripes a burst of a whole image takes about what one link needs, with
// one about twice that: inner VMs send twice what they receive.
func TestWholeImageBurst(t *testing.T) {
	const rate, blocks = 50 * mbit, 96
	took := map[string]float64{}
	for name, start := range map[string]func(*world, int, int64) []*vm{"two": (*world).striped, "one": (*world).binary} {
		inWorld(t, blocks, func(w *world) {
			t := w.t
			w.registry(rate)
			vms := start(w, 8, rate)
			began := time.Now()
			w.all(vms, (*vm).readAll)
			bound := time.Duration(w.layer.Table.Bytes() * int64(time.Second) / rate)
			took[name] = float64(time.Since(began)) / float64(bound)
			_, total := w.asked()
			t.Logf("%s: %.2f times the bound of %v, registry asked %d times for %d blocks", name, took[name], bound, total, blocks)
			if total*20 > 21*blocks {
				t.Errorf("%s: the registry was asked %d times for %d blocks", name, total, blocks)
			}
			for _, v := range vms {
				_, received := v.relay.Relayed()
				t.Logf("%s: %d bytes from VMs, %d moved, %d pushes, %d dropped, %d gets, %d unwanted", v.name, received,
					v.relay.metrics.moved.Load(), v.relay.metrics.pushes.Load(), v.relay.metrics.dropped.Load(), v.relay.metrics.gets.Load(), v.relay.metrics.unwanted.Load())
			}
		})
	}
	if took["two"] > 1.25 || took["one"] > 2.3 {
		t.Errorf("two stripes %.2f, one %.2f times the bound", took["two"], took["one"])
	}
}
