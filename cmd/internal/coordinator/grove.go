package coordinator

import (
	"time"

	"github.com/faasnet/faasnet/cmd/internal/tree"
)

// grove is the tree of one function with what the tree itself does not know.
// All of it is guarded by Coordinator.mu. In the groves map of the coordinator
// it has a seat, or awaits VMs.
type grove struct {
	key   Key
	tree  tree.Tree
	base  uint64 // added to the tree's epoch
	born  time.Time
	seats map[tree.VM]*seat
	back  *comeback // nil once the VMs of an earlier coordinator are placed
	deep  depth
}

// epoch grows with every change and over restarts: base begins in units of
// 1/4096 ms since 1970, which no tree outruns.
func (g *grove) epoch() uint64 { return g.base + g.tree.Epoch() }

// ahead is how far an epoch that a VM or a journal tells may be in the future:
// clocks of coordinators differ, but nobody may wear the epochs out.
const ahead = time.Hour

func clock(t time.Time) uint64 { return uint64(t.UnixMilli()) << 12 }

// outrun makes the next epochs of g higher than one that was told.
func (g *grove) outrun(told uint64, now time.Time) {
	if told >= g.epoch() && told < clock(now.Add(ahead)) {
		g.base = told + 1 - g.tree.Epoch()
	}
}

// grove returns the grove of k, a new one if there is none.
func (c *Coordinator) grove(k Key, now time.Time) *grove {
	g := c.groves[k]
	if g == nil {
		g = &grove{key: k, tree: c.newTree(), base: max(clock(now), c.epoch+1), born: now, seats: map[tree.VM]*seat{}}
		c.groves[k] = g
	}
	return g
}

func (c *Coordinator) newTree() tree.Tree {
	t, err := tree.New(c.opts.Form)
	if err != nil {
		panic(err) // setDefaults has tried
	}
	return t
}

// place puts a seat in the tree, last, and tells everybody whose place that
// changes.
func (c *Coordinator) place(s *seat) []tree.Move {
	g := s.grove
	s.upstreams = nil
	moves, err := g.tree.Insert(s.session.vm)
	if err != nil {
		panic(err) // a seat that is not placed has a name that the tree does not have
	}
	c.queue.joined(time.Now())
	c.tell(s)
	g.changed(moves, c.tellLater)
	c.note(g, moves, s.session.vm, tree.Origin)
	return moves
}

// displace takes a seat out of the tree if it is there and tells everybody
// whose place that changes.
func (c *Coordinator) displace(s *seat, tell func(*seat)) []tree.Move {
	if !s.placed() {
		return nil
	}
	g, vm := s.grove, s.session.vm
	parents := make([]*seat, g.tree.Stripes())
	for i := range parents {
		parents[i] = g.seats[g.tree.Upstream(vm, i)]
	}
	moves, err := g.tree.Delete(vm)
	if err != nil {
		panic(err)
	}
	g.changed(moves, tell)
	for _, p := range parents {
		tell(p)
	}
	c.note(g, moves, tree.Origin, vm)
	return moves
}

// free gives a seat up. A grove without seats is forgotten.
func (c *Coordinator) free(s *seat, tell func(*seat)) []tree.Move {
	moves := c.displace(s, tell)
	g := s.grove
	delete(g.seats, s.session.vm)
	delete(s.session.seats, g.key.Function)
	delete(s.session.news, g.key.Function)
	delete(c.suspended, s)
	c.forgetEmpty(g)
	return moves
}

func (c *Coordinator) forgetEmpty(g *grove) {
	if len(g.seats) > 0 || g.back != nil {
		return
	}
	delete(c.groves, g.key)
	c.opts.Journal.Changed(g.key)
}

// changed tells the VMs that moved, their old and new upstreams, and all
// below them, whose ancestors are others now.
func (g *grove) changed(moves []tree.Move, tell func(*seat)) {
	for _, m := range moves {
		tell(g.seats[m.Old])
		tell(g.seats[m.New])
		g.tellBelow(m.VM, m.Stripe, tell)
	}
}

// note hands a change on to watchers and journal.
func (c *Coordinator) note(g *grove, moves []tree.Move, joined, left tree.VM) {
	c.epoch = max(c.epoch, g.epoch())
	c.metrics.moves.Add(float64(len(moves)))
	c.watches.publish(g, moves, joined, left)
	c.opts.Journal.Changed(g.key)
}

// tell makes the session of s send its place. s may be nil: the origin.
func (c *Coordinator) tell(s *seat) {
	if s == nil || !s.placed() {
		return
	}
	s.session.post(s.grove.key.Function, nil)
}

// tellBelow tells vm and all that read stripe through it, once a change.
func (g *grove) tellBelow(vm tree.VM, stripe int, tell func(*seat)) {
	s := g.seats[vm]
	stamp := g.epoch()<<1 | uint64(stripe)
	if s == nil || s.stamp == stamp {
		return
	}
	s.stamp = stamp
	tell(s)
	for _, d := range g.tree.Downstream(vm, stripe) {
		g.tellBelow(d, stripe, tell)
	}
}
