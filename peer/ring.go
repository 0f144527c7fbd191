package peer

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/faasnet/faasnet/fs/block"
)

func idOf(vm string) id {
	sum := sha256.Sum256([]byte(vm))
	return id(binary.BigEndian.Uint64(sum[:8]))
}

// waits is who waits for whom, as far as this VM knows: for each block those who
// wait for us, and those for whom we wait. A ring of VMs that wait for each
// other, possible while trees change, is found by whoever sees itself in a path.
type waits struct {
	self id

	mu sync.Mutex // guards m and the fields of each wait; no other lock is taken under it
	m  map[block.Sum]*wait
}

type wait struct {
	in  []*inbound
	out []*outbound
}

// inbound is a VM that waits for a block from us, and who waits for it.
type inbound struct {
	path []id
	hops uint8
}

// outbound is a VM from which we wait for a block, and for whom it waits, as it
// told us.
type outbound struct {
	path  []id // itself first
	seen  int  // how often it told us that it waits for us
	asked id
}

func newWaits(vm string) *waits { return &waits{self: idOf(vm), m: map[block.Sum]*wait{}} }

func (w *waits) get(sum block.Sum) *wait {
	x := w.m[sum]
	if x == nil {
		x = &wait{}
		w.m[sum] = x
	}
	return x
}

func (w *waits) tidy(sum block.Sum) {
	if x := w.m[sum]; len(x.in)+len(x.out) == 0 {
		delete(w.m, sum)
	}
}

// enter notes that somebody waits. leave is its opposite.
func (w *waits) enter(sum block.Sum, path []id, hops uint8) *inbound {
	i := &inbound{path, hops}
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.get(sum)
	x.in = append(x.in, i)
	return i
}

func (w *waits) leave(sum block.Sum, i *inbound) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.m[sum]
	x.in = slices.DeleteFunc(x.in, func(o *inbound) bool { return o == i })
	w.tidy(sum)
}

// ask notes that we wait for vm, and returns who waits, we last, and how many
// more may. answered is its opposite.
func (w *waits) ask(sum block.Sum, vm id) (o *outbound, path []id, hops uint8) {
	o = &outbound{path: []id{vm}, asked: vm}
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.get(sum)
	x.out = append(x.out, o)
	hops = defaultHop
	for _, i := range x.in {
		hops = min(hops, i.hops)
		for _, v := range i.path {
			if len(path) < maxPath-1 && !slices.Contains(path, v) {
				path = append(path, v)
			}
		}
	}
	return o, append(path, w.self), hops - 1
}

func (w *waits) answered(sum block.Sum, o *outbound) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.m[sum]
	x.out = slices.DeleteFunc(x.out, func(p *outbound) bool { return p == o })
	w.tidy(sum)
}

// patience is how often a VM hears of a ring before it breaks it, unless its id
// is the lowest in the ring: that one breaks it at once. So a ring is broken in
// one place, and in any place if that one does not see it.
const ringPatience = 3

// told notes what the VM asked says of its own wait, and reports whether to
// break the ring in which it waits for us.
func (w *waits) told(o *outbound, path []id) (broken bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o.path = append(o.path[:0], o.asked)
	for _, v := range path {
		if v != o.asked && len(o.path) < maxPath-1 {
			o.path = append(o.path, v)
		}
	}
	at := slices.Index(o.path, w.self)
	if at < 0 {
		o.seen = 0
		return false
	}
	o.seen++
	return w.self == slices.Min(o.path[:at+1]) || o.seen >= ringPatience
}

// path says for whom we wait: we first, then whom we asked, and so on.
func (w *waits) path(sum block.Sum) []id {
	w.mu.Lock()
	defer w.mu.Unlock()
	path := []id{w.self}
	if x := w.m[sum]; x != nil && len(x.out) > 0 {
		path = append(path, x.out[0].path...)
	}
	return path[:min(len(path), maxPath)]
}
