package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/faasnet/faasnet/cmd/internal/tree"
)

// rushWindow is how many blocks of a start layer a VM asks for at a time: as many as
// fetch asks other VMs for.
const rushWindow = 4

// flow computes a burst instead of living through it: block by block, when each
// VM asks, when the block comes down the tree, and when who reads has a core to go
// on. No packet, queue or timer of the product is in it, so that it carries
// thousands of VMs; how far it is off is seen beside Run. Times are in seconds.
type flow struct {
	b        Burst
	stripes  int
	order    [][]int // VMs of each stripe, upstreams first
	vms      []flowVM
	registry float64 // when its link is free
	egress   int64
	lag      float64 // one way
	rate     float64 // bytes a second
}

type flowVM struct {
	up       []int // of each stripe; -1: the registry
	down     [][]int
	slot     float64 // when it begins to send the block on
	upFree   float64 // when its links are
	downFree float64
	core     [2]float64
	starts   []float64           // where each start on it is
	needs    []float64           // what each has to compute before it goes on
	ask      float64             // for the block that is looked at
	got      [8]float64          // when a start had got each of the last blocks of its run
	first    float64             // piece of the block is there
	here     float64             // all of the block is
	knew     float64             // when it knew the image's layers
	came     [rushWindow]float64 // when each of the last blocks had come
	seen     float64             // the first block of all was there
}

// Flow gives the figures of a burst with a tree by rule.
func (b Burst) Flow() (f Figures, err error) {
	if b.System != Tree {
		return f, fmt.Errorf("no rule for %s", b.System)
	}
	b.Starts, b.Image = cmp.Or(b.Starts, b.VMs), b.Image.as(b.Recorded)
	w := &flow{b: b, vms: make([]flowVM, b.VMs), lag: latency.Seconds(), rate: float64(b.Rate) / 8}
	w.begin()
	if err := w.plant(&f); err != nil {
		return f, err
	}
	w.block(0, max(1, b.Image.Section), w.create)
	if b.Image.Blocks == 0 {
		w.begun()
	}
	for _, run := range b.Image.runs() {
		for place, number := range run {
			w.aheadOf(place)
			w.block(number%w.stripes, b.Image.Block, func(v *flowVM) { w.read(v, place) })
		}
	}
	for i := range b.Starts {
		v := i % b.VMs
		f.Starts = append(f.Starts, Begun{VM: v, First: w.vms[v].seen, Ready: w.vms[v].starts[i/b.VMs]})
	}
	f.Registry, f.Peers = w.egress, int64(b.VMs)*(b.Image.Section+int64(b.Image.Blocks)*b.Image.Block)-w.egress
	return f, nil
}

// plant makes the tree. Who has pulled first joins first: the fewer starts a VM
// has, the nearer it is to the root.
func (w *flow) plant(f *Figures) error {
	t, err := tree.New(w.b.Form)
	if err != nil {
		return err
	}
	name := func(i int) tree.VM { return tree.VM(strconv.Itoa(i)) }
	joining := make([]int, len(w.vms))
	for i := range joining {
		joining[i] = i
	}
	slices.SortStableFunc(joining, func(a, b int) int { return cmp.Compare(w.vms[a].ask, w.vms[b].ask) })
	for _, i := range joining {
		if _, err := t.Insert(name(i)); err != nil {
			return err
		}
	}
	w.stripes = t.Stripes()
	w.order = make([][]int, w.stripes)
	number := func(vm tree.VM) int {
		n, _ := strconv.Atoi(string(vm)) // ours
		return n
	}
	for s := range w.stripes {
		for i := range w.vms {
			up := -1
			if u := t.Upstream(name(i), s); u != "" {
				up = number(u)
			}
			var down []int
			for _, d := range t.Downstream(name(i), s) {
				down = append(down, number(d))
			}
			w.vms[i].up, w.vms[i].down = append(w.vms[i].up, up), append(w.vms[i].down, down)
		}
		level := []int{number(t.Root(s))}
		for depth := 1; len(level) > 0; depth++ {
			f.Depth = max(f.Depth, depth)
			w.order[s] = append(w.order[s], level...)
			var next []int
			for _, v := range level {
				next = append(next, w.vms[v].down[s]...)
			}
			level = next
		}
	}
	return nil
}

// begin passes what comes before the first byte.
func (w *flow) begin() {
	for i := range w.b.Starts {
		v := &w.vms[i%len(w.vms)]
		v.starts, v.needs = append(v.starts, 0), append(v.needs, 0)
	}
	for i := range w.vms {
		w.vms[i].pass(w.b.Start.Pull)
		w.vms[i].ask = slices.Min(w.vms[i].starts)
	}
}

// pass passes a phase of all starts on a VM.
func (v *flowVM) pass(p Phase) {
	longer := p.Wall + p.CPU*max(0, float64(len(v.starts))/float64(len(v.core))-1)
	for i := range v.starts {
		v.starts[i] += longer
	}
	for i := range v.core {
		v.core[i] = slices.Min(v.starts)
	}
}

// compute takes a core for so long, from then on, and returns the end.
func (v *flowVM) compute(then, long float64) float64 {
	c := &v.core[0]
	for i := range v.core {
		if v.core[i] < *c {
			c = &v.core[i]
		}
	}
	*c = max(*c, then) + long
	return *c
}

// takeTurns has all starts compute what they need, each from when it is ready to.
func (v *flowVM) takeTurns() {
	for {
		next := -1
		for i, need := range v.needs {
			if need > 0 && (next < 0 || v.starts[i] < v.starts[next]) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		step := min(v.needs[next], turn.Seconds())
		v.starts[next] = v.compute(v.starts[next], step)
		v.needs[next] -= step
	}
}

// queue is how long who has something to compute then waits for a core: those who
// start functions take turns on them.
func (v *flowVM) queue(then float64) float64 {
	for _, c := range v.core {
		if c <= then {
			return 0
		}
	}
	ahead := len(v.starts) - len(v.core)
	return turn.Seconds() / float64(len(v.core)) * (float64(ahead) + 2./3)
}

// block brings one block down a stripe and has all VMs go on with it.
func (w *flow) block(stripe int, size int64, goOn func(*flowVM)) {
	order, long := w.order[stripe], float64(size)/w.rate
	for _, i := range slices.Backward(order) { // who below wants it has those above ask
		for _, c := range w.vms[i].down[stripe] {
			w.vms[i].ask = min(w.vms[i].ask, w.vms[c].ask+w.lag)
		}
	}
	for _, i := range order {
		v := &w.vms[i]
		var start, whole float64 // of the transfer, and when its source has all
		share := 1.0             // of how many on the link of its source
		if up := v.up[stripe]; up >= 0 {
			u := &w.vms[up]
			share = float64(len(u.down[stripe]))
			if u.down[stripe][0] == i { // they take turns from the first piece on
				u.slot = max(u.first, u.upFree)
				u.upFree = u.slot + share*long
			}
			start, whole = u.slot, u.here
		} else {
			start = max(v.ask+2*w.lag, w.registry)
			w.registry = start + float64(size)*8/float64(w.b.Registry)
			w.egress += size
			whole = w.registry
		}
		tail := share*float64(min(size, w.b.piece()))/w.rate + w.lag
		work := float64(size) * (w.b.Costs.Receive + w.b.Costs.Send*float64(len(v.down[stripe])))
		turns := 0.0
		if work > 0 {
			turns = v.queue(start + tail)
		}
		v.first = start + tail + turns
		v.downFree = max(v.downFree, start) + long
		v.here = max(v.downFree+w.lag+turns, start+share*long+w.lag+turns, whole+tail+turns, v.first+work)
		v.compute(v.first, work)
		goOn(v)
	}
}

// create has the starts of a VM make their containers.
func (w *flow) create(v *flowVM) {
	v.knew = max(slices.Min(v.starts), v.here)
	for i := range v.starts {
		v.starts[i] = max(v.starts[i], v.here)
	}
	v.pass(w.b.Start.Create)
	v.ask = slices.Min(v.starts)
}

// begun passes the function where it reads nothing.
func (w *flow) begun() {
	for i := range w.vms {
		w.vms[i].pass(w.b.Start.Run)
	}
}

// read has the starts of a VM read the block that is there.
func (w *flow) read(v *flowVM, place int) {
	n := float64(w.b.Image.Blocks)
	cpu := (w.b.Start.Run.CPU + w.b.Start.Serve) / n
	wait := max(0, w.b.Start.Run.Wall-w.b.Start.Run.CPU) / n
	decode := w.b.Costs.Decode * BlockSize
	v.seen = cmp.Or(v.seen, v.here)
	v.came[place%rushWindow] = v.here
	v.got[place%len(v.got)] = max(v.here, slices.Min(v.starts))
	for i := range v.starts {
		v.starts[i] = max(v.starts[i], v.here)
		v.needs[i] = cpu
	}
	v.needs[0] += decode
	v.takeTurns()
	for i := range v.starts {
		v.starts[i] += wait
	}
	v.ask = slices.Min(v.starts)
}

// aheadOf has VMs ask for a block ahead of their reader, as fetch does: the third
// block of a run that it has got brings one more, the next two, and from then on it
// is four blocks ahead.
func (w *flow) aheadOf(place int) {
	if w.b.Recorded {
		w.rush(place)
		return
	}
	if place < 3 {
		return
	}
	by := max(place-4, [...]int{2, 3, 3, 4, 4}[min(place-3, 4)])
	for i := range w.vms {
		v := &w.vms[i]
		v.ask = min(v.ask, v.got[by%len(v.got)])
	}
}

// rush has VMs ask for a block of a start layer when the fourth before it is here,
// and for the first ones as soon as they know the layer.
func (w *flow) rush(place int) {
	for i := range w.vms {
		v := &w.vms[i]
		if place < rushWindow {
			v.ask = v.knew
		} else {
			v.ask = v.came[place%rushWindow]
		}
	}
}
