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
	return b.live(t, nil, nil)
}

// live lives through the burst. watch, if any, is given the world before its VMs,
// and done is called when all starts have ended.
func (b Burst) live(t *testing.T, watch func(*world), done func()) (f Figures) {
	t.Helper()
	b.Starts, b.Images, b.Scale = cmp.Or(b.Starts, b.VMs), cmp.Or(b.Images, 1), cmp.Or(b.Scale, 1)
	b.Image = b.Image.as(b.Recorded)
	began := time.Now()
	images := b.images()
	inWorld(t, b.fleet(images), func(w *world) {
		if watch != nil {
			watch(w)
		}
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
		if done != nil {
			done()
		}
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

// piece is what takes its turn on a VM's link, and what a relay passes on at a
// time: what the link carries in a millisecond, 4 to 64 KiB.
func (b Burst) piece() int64 { return min(max(b.Rate/8/1000, 4<<10), 64<<10) }

func (b Burst) fleet(images []*image) fleet {
	scale := int64(b.Scale)
	costs := b.Costs
	for _, c := range []*float64{&costs.Receive, &costs.Send, &costs.Serve} {
		*c *= float64(b.Scale)
	}
	return fleet{
		form: b.Form, rate: b.Rate / 8 / scale, registry: b.Registry / 8 / scale, latency: latency,
		window: int(max(8<<10, 2<<20/scale)), segment: int(max(512, b.piece()/scale)),
		noTree: b.System != Tree, noFill: true, images: images,
		cores: b.Cores, shared: b.Shared, costs: costs,
	}
}

// images makes the blocks that starts read, and for a full pull all bytes.
func (b Burst) images() (out []*image) {
	size := BlockSize / b.Scale
	for i := range b.Images {
		seed := uint64(imageSeed + i)
		m := &image{}
		m.setSection(blocktest.Random(seed<<20, max(64, int(b.Image.Section)/b.Scale)))
		if b.System == FullPull {
			for l := range b.Image.Layers {
				m.full = append(m.full, blocktest.Random(seed<<16|uint64(l), int(b.Image.Bytes)/b.Scale/b.Image.Layers))
			}
		} else {
			random := max(64, int(b.Image.Block)/b.Scale)
			m.addLayers(seed, size, min(size, random), b.Image.layers()...)
		}
		out = append(out, m)
	}
	return out
}

// layers is how many blocks are read of each layer that is read.
func (i Image) layers() (out []int) {
	spread := min(cmp.Or(i.Spread, i.Layers), i.Blocks)
	for l := range spread {
		out = append(out, (l+1)*i.Blocks/spread-l*i.Blocks/spread)
	}
	return out
}

// as is the image, or a conversion of it that is recorded: one layer has all that
// is read, in order.
func (i Image) as(recorded bool) Image {
	if recorded {
		i.Run, i.Spread = 0, 1
	}
	return i
}

// runs are the numbers of the blocks that a start reads, counted over the image, run
// by run: in any order, the same on all VMs.
func (i Image) runs() (out [][]int) {
	first := 0
	for _, n := range i.layers() {
		blocks := make([]int, n)
		for k := range blocks {
			blocks[k] = first + k
		}
		out = append(out, slices.Collect(slices.Chunk(blocks, cmp.Or(i.Run, n)))...)
		first += n
	}
	if i.Run > 0 {
		rand.New(rand.NewPCG(imageSeed, 0)).Shuffle(len(out), func(a, b int) { out[a], out[b] = out[b], out[a] })
	}
	return out
}

// order is what a start reads of an image made so; nothing of one for a full pull.
func (i Image) order(m *image) (out []span) {
	var blocks []span
	for l := range m.layers {
		blocks = append(blocks, m.part(l, m.layers[l].Table.BlockSize(), 1)...)
	}
	if len(blocks) == 0 {
		return nil
	}
	for _, number := range slices.Concat(i.runs()...) {
		out = append(out, blocks[number])
	}
	return out
}

// String says what is simulated.
func (b Burst) String() string {
	s := fmt.Sprintf("%d VMs, %s", b.VMs, b.System)
	if b.System == Tree {
		s += ", " + string(b.Form)
	}
	if b.Recorded {
		s += ", recorded"
	}
	return s
}
