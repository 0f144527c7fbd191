package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/fs/block"
)

// What a container waits for while a block is not here.
const (
	ownLink   = "own link carries"
	aboveLink = "link of VM above is busy"
	topLink   = "registry's link is busy"
	asking    = "answer is on its way"
	unasked   = "nobody has asked the registry yet"
)

// glance is how often waits are looked at.
const glance = time.Millisecond

// waits looks at what containers wait for, while they do.
type waits struct {
	w       *world
	stopped chan struct{}

	mu    sync.Mutex // guards what follows
	begun map[vmBlock]bool
	now   map[*container]block.Ref
	spent map[string]map[string]time.Duration // by VM and cause
}

type vmBlock struct {
	vm  string
	sum block.Sum
}

func (l *waits) attach(w *world) {
	l.w, l.stopped = w, make(chan struct{})
	l.begun, l.now, l.spent = map[vmBlock]bool{}, map[*container]block.Ref{}, map[string]map[string]time.Duration{}
	w.o.hooks.comes = func(v *vm, ref block.Ref) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.begun[vmBlock{v.name, ref.Sum}] = true
	}
	w.o.hooks.waits = func(c *container, s span) func() {
		table := c.m.layers[s.layer].Table
		ref := c.m.layers[s.layer].Ref(int(s.off) / table.BlockSize())
		l.mu.Lock()
		defer l.mu.Unlock()
		l.now[c] = ref
		return func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			delete(l.now, c)
		}
	}
	go l.look()
}

// stop ends look.
func (l *waits) stop() { close(l.stopped) }

// look looks until it is stopped.
func (l *waits) look() {
	for {
		select {
		case <-l.stopped:
			return
		case <-time.After(glance):
		}
		asked := map[vmBlock]bool{}
		for _, a := range l.w.asked.since(0) {
			asked[vmBlock{a.vm, a.ref.Sum}] = true
		}
		l.mu.Lock()
		for c, ref := range l.now {
			if c.v.up.store.Has(ref) {
				continue
			}
			if l.spent[c.v.name] == nil {
				l.spent[c.v.name] = map[string]time.Duration{}
			}
			l.spent[c.v.name][l.cause(c, ref, asked)] += glance
		}
		l.mu.Unlock()
	}
}

// cause says what keeps a block from coming: it goes up the block's stripe to
// whoever has bytes of it.
func (l *waits) cause(c *container, ref block.Ref, asked map[vmBlock]bool) string {
	stripe := c.m.number(ref) % 2
	v, level := c.v, 0
	_, down := v.host.Busy()
	if down {
		return ownLink
	}
	for {
		place := v.place(c.m.function)
		if len(place.Stripes) == 0 {
			return "no place"
		}
		up := place.Stripes[stripe%len(place.Stripes)].Upstream.VM
		if up == "" {
			if busy, _ := l.w.regHost.Busy(); busy {
				return topLink
			}
			if !asked[vmBlock{v.name, ref.Sum}] {
				return unasked
			}
			return asking
		}
		above := l.w.named(up)
		if l.begun[vmBlock{up, ref.Sum}] {
			if busy, _ := above.host.Busy(); busy {
				return fmt.Sprint(aboveLink, ", ", level+1, " up")
			}
			if above.up.store.Has(ref) {
				return fmt.Sprint("is ", level+1, " up and does not come")
			}
		}
		v, level = above, level+1
	}
}

// number is which block of the image a block is.
func (m *image) number(ref block.Ref) (n int) {
	for _, l := range m.layers {
		if l.Digest == ref.Blob {
			return n + ref.Number
		}
		n += l.Table.Len()
	}
	return n
}

// tell says what a VM waited for, the longest first.
func (l *waits) tell(vm string) string {
	var out []string
	causes := l.spent[vm]
	for _, c := range slices.SortedFunc(maps.Keys(causes), func(a, b string) int { return int(causes[b] - causes[a]) }) {
		out = append(out, fmt.Sprintf("%s %.2f s", c, causes[c].Seconds()))
	}
	return strings.Join(out, "; ")
}

// A burst of a function that computes nothing and goes through three layers from
// start to end takes hardly longer than one start. What it does take longer it waits
// for links of VMs above: a block at a time keeps those of one stripe busy only.
func TestWhatABurstWaitsFor(t *testing.T) {
	b := Burst{
		System: Tree, Form: tree.Striped, Rate: 50e6, Registry: 50e6, Cores: 2, Scale: 16,
		Image: Image{Layers: 16, Section: 124e3, Blocks: 153, Block: 305e3, Spread: 3},
	}
	sizes := []int{1, 8}
	if long() {
		sizes = append(sizes, 16, 64)
	}
	var one float64
	for _, b.VMs = range sizes {
		l := &waits{}
		f := b.live(t, l.attach, l.stop)
		last := slices.MaxFunc(f.Starts, func(a, b Begun) int { return cmp.Compare(a.Ready, b.Ready) })
		if b.VMs == 1 {
			one = last.Ready
		}
		v := l.w.vms[last.VM]
		t.Logf("%d VMs: the last READY after %.2f s, %.3f x one VM. It reads from %q and waited: %s", b.VMs, last.Ready, last.Ready/one, upstreams(v.place(l.w.o.images[0].function)), l.tell(v.name))
		for _, v := range l.w.vms {
			if v.number != last.VM && slices.Contains(upstreams(v.place(l.w.o.images[0].function)), "") {
				t.Logf("    root %s, READY after %.2f s: %s", v.name, f.Starts[v.number].Ready, l.tell(v.name))
			}
		}
		if last.Ready > 1.12*one {
			t.Errorf("%d VMs: want 1.12 x", b.VMs)
		}
	}
}
