package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/faasnet/faasnet/cmd/internal/tree"
)

// fault is what happens to a VM, or to the coordinator.
type fault string

const (
	join    fault = "joins"
	kill    fault = "is killed"            // and does not come back
	restart fault = "is killed and starts" // after a while, with its disk
	leave   fault = "leaves"
	freeze  fault = "is stopped" // for a while
	unlink  fault = "loses its link"
	slow    fault = "is slow" // a twentieth of its uplink, for a while
	evict   fault = "evicts all its blocks"
	away    fault = "coordinator dies" // and another one starts after a while
)

// stays reports whether a fault for good takes the VM away.
func (f fault) stays() bool { return f == kill || f == leave || f == unlink }

// event is what happens when. vm is -1 for the coordinator.
type event struct {
	at   time.Duration
	vm   int
	what fault
	last time.Duration // how long, 0 for good
}

func (e event) String() string {
	s := fmt.Sprintf("%.3fs ", e.at.Seconds())
	if e.vm >= 0 {
		s += fmt.Sprintf("vm%03d ", e.vm)
	}
	s += string(e.what)
	if e.last > 0 {
		s += fmt.Sprintf(" (%.3fs)", e.last.Seconds())
	}
	return s
}

// plan is a fleet of a seed and all that happens to it.
type plan struct {
	seed   uint64
	fleet  fleet
	vms    int
	liars  map[int]bool // give wrong bytes under a good verdict, always
	work   [][]span     // what the container of each VM reads first
	events []event
}

// Sizes are scaled down so that many fleets fit into a minute: a block takes as
// long as one of 512 KiB at 200 Mbit/s.
const (
	smallBlock = 16 << 10
	smallRate  = smallBlock * 50 // bytes a second
)

// stormTime is the time in which VMs join and fail. A start takes about as long.
const stormTime = 2 * time.Second

// newPlan draws a plan. vms 0 draws their number too.
func newPlan(seed uint64, vms int) *plan {
	r := rand.New(rand.NewPCG(seed, 3))
	p := &plan{seed: seed, vms: vms, liars: map[int]bool{}}
	if drawn := 3 + r.IntN(14) + r.IntN(2)*r.IntN(24); vms == 0 {
		p.vms = drawn
	}
	forms := []tree.Form{tree.Striped, tree.Striped, tree.Complete, tree.Rotate}
	p.fleet = fleet{
		form: forms[r.IntN(len(forms))], rate: smallRate, registry: smallRate * int64(1+r.IntN(4)),
		latency: time.Duration(200+r.IntN(2800)) * time.Microsecond, window: 64 << 10, segment: 4 << 10,
		held: 1, images: []*image{newImage(seed, smallBlock, 8+r.IntN(8), 8+r.IntN(8), 8)},
	}
	for i := range p.vms {
		at := time.Duration(0)
		if r.IntN(3) == 0 {
			at = time.Duration(r.Int64N(int64(stormTime)))
		}
		p.events = append(p.events, event{at: at, vm: i, what: join})
		p.work = append(p.work, p.fleet.images[0].some(r))
	}
	p.misfortunes(r)
	slices.SortStableFunc(p.events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	return p
}

// misfortunes draws what goes wrong: at least two VMs are spared.
func (p *plan) misfortunes(r *rand.Rand) {
	faults := []fault{kill, kill, kill, restart, restart, leave, freeze, freeze, unlink, unlink, slow, evict}
	victims := r.Perm(p.vms)[:r.IntN(max(1, min(p.vms-1, 1+p.vms*2/3)))]
	for _, vm := range victims {
		if r.IntN(5) == 0 {
			p.liars[vm] = true
			continue
		}
		e := event{at: time.Duration(r.Int64N(int64(stormTime))), vm: vm, what: faults[r.IntN(len(faults))]}
		for _, j := range p.events {
			if j.vm == vm {
				e.at += j.at // not before it has joined
			}
		}
		switch e.what {
		case restart, slow, freeze:
			e.last = 100*time.Millisecond + time.Duration(r.Int64N(int64(2500*time.Millisecond)))
		case unlink:
			e.last = time.Duration(r.IntN(2)) * (200*time.Millisecond + time.Duration(r.Int64N(int64(4*time.Second))))
		}
		p.events = append(p.events, e)
	}
	if r.IntN(4) == 0 {
		p.events = append(p.events, event{
			at: time.Duration(r.Int64N(int64(stormTime))), vm: -1, what: away, last: time.Duration(r.Int64N(int64(3 * time.Second))),
		})
	}
}

// some returns what one start of a function reads: some files, in any order, not
// in the last layer.
func (m *image) some(r *rand.Rand) (out []span) {
	for range 4 + r.IntN(12) {
		l := r.IntN(len(m.layers) - 1)
		size := len(m.layers[l].Stream)
		off := r.IntN(size)
		for n := 1 + r.IntN(4*smallBlock); n > 0 && off < size; {
			step := min(n, smallBlock/2, size-off)
			out = append(out, span{l, int64(off), step})
			off, n = off+step, n-step
		}
	}
	return out
}

// limit bounds how often the registry may be asked for one block: once, and for
// each VM that fails, lies, or comes while there is no coordinator by those two
// that were below it.
func (p *plan) limit() int {
	var from, to time.Duration
	for _, e := range p.events {
		if e.what == away {
			from, to = e.at, e.at+e.last+2*time.Second // VMs are back within 2 s
		}
	}
	n := len(p.liars) + lateRoots
	for _, e := range p.events {
		if e.what != join || e.at+bootTime >= from && e.at < to {
			n++
		}
	}
	return 1 + 2*n
}

// lateRoots are VMs that become the root of a stripe although others have its
// blocks: the second VM of a tree of two stripes.
const lateRoots = 1

// String says what a plan is, so that a failure can be understood.
func (p *plan) String() string {
	var b strings.Builder
	f := p.fleet
	fmt.Fprintf(&b, "seed %d: %d VMs, %s, %d blocks, latency %v, registry %d x a VM's rate\n",
		p.seed, p.vms, f.form, f.images[0].blocks(), f.latency, f.registry/f.rate)
	for vm := range p.vms {
		if p.liars[vm] {
			fmt.Fprintf(&b, "  vm%03d lies\n", vm)
		}
	}
	for _, e := range p.events {
		fmt.Fprintf(&b, "  %v\n", e)
	}
	return b.String()
}
