package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/faasnet/faasnet/fs/block/blocktest"
)

// settle is how long VMs are up before a burst: all attend the coordinator.
const settle = time.Second

// Run lives through the burst in a bubble of t. A start that fails is told in the
// figures.
func (b Burst) Run(t *testing.T) (f Figures) {
	t.Helper()
	b.Starts, b.Images, b.Scale = cmp.Or(b.Starts, b.VMs), cmp.Or(b.Images, 1), cmp.Or(b.Scale, 1)
	began := time.Now()
	images := b.images()
	inWorld(t, b.fleet(images), func(w *world) {
		vms := w.add(b.VMs)
		time.Sleep(settle)
		sent := w.egress()
		begin := time.Now()
		starts := make([]*starting, b.Starts)
		for i := range starts {
			starts[i] = &starting{v: vms[i%len(vms)], m: images[i%len(images)], what: &b, began: begin, Begun: Begun{VM: i % len(vms)}}
			w.work.Go(func() { starts[i].do(b.Image.order(images[0])) })
		}
		w.work.Wait()
		for _, s := range starts {
			f.Starts = append(f.Starts, s.Begun)
		}
		f.Registry = (w.egress() - sent) * int64(b.Scale)
		w.sum(&b, &f)
	})
	f.Wall = time.Since(began).Seconds()
	return f
}

func (s *starting) do(order []span) {
	var err error
	if s.what.System == FullPull {
		err = s.pullAll()
	} else {
		err = s.run(order)
	}
	if err != nil {
		s.Error = err.Error()
	}
}

// sum adds up what VMs did.
func (w *world) sum(b *Burst, f *Figures) {
	all := map[*cores]bool{}
	for _, v := range w.vms {
		_, got := v.up.relay.Relayed()
		f.Peers += got * int64(b.Scale)
		if !all[v.cpu] {
			all[v.cpu] = true
			f.CPU += time.Duration(v.cpu.busy.Load()).Seconds()
		}
	}
	if b.System != Tree {
		return
	}
	for _, m := range w.o.images {
		f.Depth = max(f.Depth, w.height(m.function))
	}
}

// height is the depth of the deepest VM of a function's tree; a root's is 1.
func (w *world) height(function string) (h int) {
	for _, n := range w.tree.of(function).GetNodes() {
		for _, d := range n.Depths {
			h = max(h, int(d)+1)
		}
	}
	return h
}

func (b Burst) fleet(images []*image) fleet {
	scale := int64(b.Scale)
	costs := b.Costs
	for _, c := range []*float64{&costs.Receive, &costs.Send, &costs.Serve} {
		*c *= float64(b.Scale)
	}
	return fleet{
		form: b.Form, rate: b.Rate / 8 / scale, registry: b.Registry / 8 / scale, latency: latency,
		window: int(max(8<<10, 2<<20/scale)), segment: int(max(1<<10, 64<<10/scale)),
		noTree: b.System != Tree, noFill: true, images: images,
		cores: b.Cores, shared: b.Shared, costs: costs,
	}
}

// images makes the blocks that starts read, and for a full pull all bytes.
func (b Burst) images() (out []*image) {
	size := int(b.Image.Block) / b.Scale
	for i := range b.Images {
		seed := uint64(imageSeed + i)
		if b.System == FullPull {
			m := newImage(seed, size, 1)
			each := int(b.Image.Bytes) / b.Scale / b.Image.Layers
			for l := range b.Image.Layers {
				m.full = append(m.full, blocktest.Random(seed<<16|uint64(l), each))
			}
			out = append(out, m)
			continue
		}
		spread := cmp.Or(b.Image.Spread, b.Image.Layers)
		blocks := make([]int, spread)
		for k := range b.Image.Blocks {
			blocks[k*spread/b.Image.Blocks]++
		}
		m := newImage(seed, size, slices.DeleteFunc(blocks, func(n int) bool { return n == 0 })...)
		m.setSection(blocktest.Random(seed<<20, max(64, int(b.Image.Section)/b.Scale)))
		out = append(out, m)
	}
	return out
}

// order is the order in which a start reads the blocks of an image: runs of blocks
// in any order, the same on all VMs.
func (i Image) order(m *image) (out []span) {
	var runs [][]span
	for l := range m.layers {
		blocks := m.part(l, m.layers[l].Table.BlockSize(), 1)
		runs = append(runs, slices.Collect(slices.Chunk(blocks, cmp.Or(i.Run, len(blocks))))...)
	}
	if i.Run > 0 {
		rand.New(rand.NewPCG(imageSeed, 0)).Shuffle(len(runs), func(a, b int) { runs[a], runs[b] = runs[b], runs[a] })
	}
	return slices.Concat(runs...)
}

// String says what is simulated.
func (b Burst) String() string {
	s := fmt.Sprintf("%d VMs, %s", b.VMs, b.System)
	if b.System == Tree {
		s += ", " + string(b.Form)
	}
	return s
}
