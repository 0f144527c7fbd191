package peer

import (
	"fmt"
	"slices"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
)

// Peer is another VM: its name and where its relay listens. The zero Peer stands
// for the origin.
type Peer struct {
	VM      string
	Address string // host:port
}

// Place is where this VM stands in a function's tree, as the coordinator says.
type Place struct {
	Epoch   uint64 // never 0
	Stripes []Stripe
	Token   string // for those above
}

// Stripe is the place in one of the trees. Block i of the image travels in
// stripe i mod len(Stripes), sections in stripe 0.
type Stripe struct {
	Upstream   Peer
	Ancestors  []Peer // beyond Upstream, nearest first
	Downstream []Peer
}

// maxStripes bounds the stripes of a function.
const maxStripes = 16

// placed is a place and what we do about it. Guarded by Relay.mu.
type placed struct {
	place     Place
	following []*following         // by stripe
	avoid     map[string]time.Time // VMs that sent us away, until when
}

// avoidFor is how long a VM that sends us away is not asked for the function.
const avoidFor = 500 * time.Millisecond

// Place says where this VM stands in the function's tree. The zero Place says
// that it does not. A place with a lower epoch than the last one is ignored.
// What is new is connected and followed before what is old is left.
func (r *Relay) Place(function string, p Place) error {
	if len(function) > maxText || len(p.Token) > maxText || len(p.Stripes) > maxStripes || p.Epoch != 0 && len(p.Stripes) == 0 {
		return fmt.Errorf("peer: place in %q: out of bounds: %w", function, errdefs.ErrInvalidArgument)
	}
	for _, n := range r.replace(function, p) {
		n.abandon()
	}
	return nil
}

// replace puts p in the place of the last one and returns who was above us until
// now.
func (r *Relay) replace(function string, p Place) (left []*neighbour) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.prune()
	old := r.places[function]
	if p.Epoch == 0 {
		if old != nil {
			delete(r.places, function)
			old.stop(0)
		}
		r.dismiss(function)
		return nil
	}
	if old == nil {
		old = &placed{avoid: map[string]time.Time{}}
		r.places[function] = old
	}
	if p.Epoch < old.place.Epoch {
		return nil
	}
	now := p.above()
	for vm := range old.place.above() {
		if n := r.neighbours[vm]; n != nil && !now[vm] {
			left = append(left, n)
		}
	}
	if p.Epoch > old.place.Epoch {
		clear(old.avoid)
		if k := r.children[function]; k != nil {
			k.strangers = nil
		}
	}
	old.place = p
	old.stop(len(p.Stripes))
	for i := len(old.following); i < len(p.Stripes); i++ {
		old.following = append(old.following, newFollowing(function, i))
	}
	if r.running {
		old.follow(r)
	}
	return left
}

// functions returns those in which we have a place.
func (r *Relay) functions() map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	ours := make(map[string]bool, len(r.places))
	for function := range r.places {
		ours[function] = true
	}
	return ours
}

// above returns the VMs above us.
func (p Place) above() map[string]bool {
	vms := map[string]bool{}
	for _, s := range p.Stripes {
		vms[s.Upstream.VM] = true
		for _, a := range s.Ancestors {
			vms[a.VM] = true
		}
	}
	return vms
}

// follow starts what follows the upstreams, or tells it that they changed.
// Relay.mu is held.
func (p *placed) follow(r *Relay) {
	for i, f := range p.following {
		f.set(p.place.Stripes[i].Upstream, p.place.Token, len(p.place.Stripes))
		if !f.started {
			f.started = r.startLocked(func() { f.run(r) })
		}
	}
}

// stop ends following stripes from n on.
func (p *placed) stop(n int) {
	for len(p.following) > n {
		last := len(p.following) - 1
		close(p.following[last].stopped)
		p.following = p.following[:last]
	}
}

// prune forgets the neighbours that no place names, if there is no connection.
// Relay.mu is held.
func (r *Relay) prune() {
	named := map[string]bool{}
	for _, p := range r.places {
		for _, s := range p.place.Stripes {
			named[s.Upstream.VM] = true
			for _, a := range s.Ancestors {
				named[a.VM] = true
			}
		}
	}
	for vm, n := range r.neighbours {
		if !named[vm] && n.unused() {
			delete(r.neighbours, vm)
		}
	}
}

// dismiss sends the followers of a function away. Relay.mu is held.
func (r *Relay) dismiss(function string) {
	if k := r.children[function]; k != nil {
		for _, f := range k.followers {
			f.c.moved(f.tag, 0)
		}
		delete(r.children, function)
	}
}

// names reports whether the assignment has vm below us, in the stripe or, for -1,
// in any.
func (p *placed) names(vm string, stripe int) bool {
	if p == nil {
		return false
	}
	for i, s := range p.place.Stripes {
		if (stripe < 0 || stripe == i) && slices.ContainsFunc(s.Downstream, func(d Peer) bool { return d.VM == vm }) {
			return true
		}
	}
	return false
}

// children returns how many VMs the assignment has below us.
func (p *placed) children() int {
	if p == nil {
		return 0
	}
	n := 0
	for _, s := range p.place.Stripes {
		n += len(s.Downstream)
	}
	return n
}

// Sources is that of fetch.Upstreams: the upstream of the block's stripe, then
// the ancestors. VMs that cannot be reached, gave bad bytes or are slow are left
// out, those that have become quiet come last.
func (r *Relay) Sources(ref block.Ref) []block.Source {
	at := r.opts.Catalog.find(ref)
	if len(at) == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.running {
		return nil
	}
	now := time.Now()
	var good, quiet []block.Source
	var names []string
	for _, a := range at {
		p := r.places[a.function]
		if p == nil {
			continue
		}
		s := p.place.Stripes[a.number%len(p.place.Stripes)]
		for i := -1; i < len(s.Ancestors); i++ {
			peer := s.Upstream
			if i >= 0 {
				peer = s.Ancestors[i]
			}
			if peer.VM == "" || peer.VM == r.opts.VM || slices.Contains(names, peer.VM) || now.Before(p.avoid[peer.VM]) {
				continue
			}
			n := r.neighbour(peer)
			if !n.usable(now) {
				continue
			}
			names = append(names, peer.VM)
			src := &source{n: n, function: a.function, token: p.place.Token}
			if n.quiet() {
				quiet = append(quiet, src)
			} else {
				good = append(good, src)
			}
		}
	}
	return append(good, quiet...)
}
