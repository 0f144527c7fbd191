package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/faasnet/faasnet/cmd/internal/tree"
)

// Blocks are a tenth as large as real ones and links as much slower, so that a
// block takes as long: 4.2 ms as at 1 Gbit/s, or 42 ms as at 100 Mbit/s. What is
// relayed within a block is too small for that, so that a level of the tree costs
// more than it really does.
const (
	blockSize = 64 << 10
	fastLink  = 125 * mbit
	slowLink  = fastLink / 10
)

// quick is a fleet whose VMs have such links and fetch what is read, no more.
func quick(form tree.Form, rate int64, m *image) fleet {
	return fleet{
		form: form, rate: rate, images: []*image{m}, noFill: true,
		window: 64 << 10, segment: 8 << 10, flat: 4 << 20,
	}
}

// start is what one start of a function reads: files that lie one after the
// other, a quarter of all blocks.
func (m *image) start() (out []span) {
	for i := range m.layers {
		out = append(out, m.part(i, blockSize/4, 0.25)...)
	}
	return out
}

// N VMs start one function at the same moment: that takes hardly longer than one,
// and the registry sends each block once.
func TestBurstIsFlat(t *testing.T) {
	type limit struct {
		vms  int
		time float64 // to READY, that of one VM being 1
	}
	m := newImage(1, blockSize, 170, 170, 172)
	for form, limits := range map[tree.Form][]limit{
		tree.Striped:  {{1, 1}, {8, 1.25}, {16, 1.25}, {64, 1.3}, {128, 1.35}},
		tree.Complete: {{1, 1}, {8, 2.2}, {16, 2.2}, {64, 2.3}, {128, 2.3}}, // the paper's: half of the uplinks do all
	} {
		if !long() {
			limits = limits[:3]
		}
		var one burst
		for _, l := range limits {
			inWorld(t, quick(form, fastLink, m), func(w *world) {
				vms := w.add(l.vms)
				time.Sleep(bootTime)
				b := w.burst(vms, m, m.start(), 1, nil)
				if l.vms == 1 {
					one = b
				}
				longer, more := float64(b.median())/float64(one.median()), b.egress/one.egress
				t.Logf("%-8s %3d VMs: READY median %4d ms, last %4d ms, slowest read %2d ms; %.2f x one VM in time, %.3f x in bytes from the registry",
					form, l.vms, b.median().Milliseconds(), b.last().Milliseconds(), slices.Max(b.slowest).Milliseconds(), longer, more)
				if err := b.err(); err != nil || longer > l.time || more > 1.05 {
					t.Errorf("want %.2f x and 1.05 x: %v", l.time, err)
				}
			})
		}
	}
}

// A whole image comes to 8 VMs hardly later than to one where two stripes use
// every uplink once, and in twice the time where one tree does not.
func TestTwoStripesUseEveryUplink(t *testing.T) {
	m := newImage(1, blockSize, 72, 73)
	bound := atLink(m.bytes(), slowLink)
	took := map[tree.Form]time.Duration{}
	for _, form := range []tree.Form{tree.Striped, tree.Complete, tree.Rotate} {
		inWorld(t, quick(form, slowLink, m), func(w *world) {
			vms := w.add(8)
			time.Sleep(bootTime)
			b := w.burst(vms, m, m.whole(blockSize/2), 2, nil)
			took[form] = b.last()
			t.Logf("%-8s the last of 8 VMs after %v, %.2f x the time at the link's rate; %.3f images from the registry",
				form, took[form].Round(time.Millisecond), float64(took[form])/float64(bound), b.egress)
			if err := b.err(); err != nil || b.egress > 1.05 {
				t.Errorf("%.3f images from the registry, %v", b.egress, err)
			}
		})
	}
	if d := took[tree.Striped]; d > bound*5/4 {
		t.Errorf("two stripes take %v, want %v", d, bound*5/4)
	}
	if one, two := took[tree.Complete], took[tree.Striped]; two > one*6/10 {
		t.Errorf("two stripes take %v, one takes %v: want 0.6 of it", two, one)
	}
}

// What waits for its turn behind much else that the same VM has asked for is not
// late: in one tree, where a line is shared by two, neither is the registry asked
// for it nor is the VM above said to be slow.
func TestQueueOfOwnMakingIsNotLate(t *testing.T) {
	m := newImage(1, blockSize, 150, 150)
	inWorld(t, quick(tree.Complete, slowLink/2, m), func(w *world) {
		vms := w.add(8)
		time.Sleep(bootTime)
		b := w.burst(vms, m, m.whole(blockSize/2), 16, nil)
		t.Logf("16 readers each: %.3f images from the registry", b.egress)
		if err := b.err(); err != nil || b.egress > 1.1 {
			t.Errorf("%.3f images from the registry, %v", b.egress, err)
		}
		for _, v := range vms {
			if len(v.reports) > 0 {
				t.Errorf("%s reports %v", v.name, v.reports)
			}
		}
	})
}
