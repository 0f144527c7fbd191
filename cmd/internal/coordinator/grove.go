package coordinator

import (
	"cmp"
	"slices"
	"time"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

// grove is the tree of one function with what the tree itself does not know.
// All of it is guarded by Coordinator.mu.
type grove struct {
	key     Key
	tree    tree.Tree
	base    uint64 // added to the tree's epoch
	members map[tree.VM]*seat
	waiting []arrival // VMs that came back, to be placed when settle is over
	settle  time.Time
}

// seat is one VM's place in a grove.
type seat struct {
	blocks  uint64
	joined  time.Time
	token   string
	expires time.Time // of token
}

// arrival is a VM that waits for its place.
type arrival struct {
	vm     tree.VM
	blocks uint64
}

// epoch grows with every change and over restarts: base is in units of
// 1/4096 ms since 1970, which no tree outruns.
func (g *grove) epoch() uint64 { return g.base + g.tree.Epoch() }

func (c *Coordinator) grove(k Key, now time.Time) *grove {
	g := c.groves[k]
	if g == nil {
		t, err := tree.New(c.opts.Form)
		if err != nil {
			panic(err) // setDefaults has tried
		}
		g = &grove{key: k, tree: t, base: uint64(now.UnixMilli()) << 12, members: map[tree.VM]*seat{}}
		c.groves[k] = g
	}
	return g
}

// place puts vm in the tree and tells everybody whose place that changes.
func (c *Coordinator) place(g *grove, vm tree.VM, blocks uint64, now time.Time) ([]tree.Move, error) {
	moves, err := g.tree.Insert(vm)
	if err != nil {
		return nil, err
	}
	g.members[vm] = &seat{blocks: blocks, joined: now}
	c.changed(g, moves, vm, tree.Origin, now)
	return moves, nil
}

// displace takes vm out of the tree and tells everybody whose place that
// changes. A grove without VMs is forgotten.
func (c *Coordinator) displace(g *grove, vm tree.VM, now time.Time) []tree.Move {
	var parents []tree.VM
	for s := range g.tree.Stripes() {
		if up := g.tree.Upstream(vm, s); up != tree.Origin {
			parents = append(parents, up)
		}
	}
	moves, err := g.tree.Delete(vm)
	if err != nil {
		return nil
	}
	delete(g.members, vm)
	c.changed(g, moves, tree.Origin, vm, now)
	for _, p := range parents {
		c.tell(g, p, now)
	}
	c.forgetEmpty(g)
	return moves
}

func (c *Coordinator) forgetEmpty(g *grove) {
	if g.tree.Len() == 0 && len(g.waiting) == 0 {
		delete(c.groves, g.key)
		c.opts.Journal.Forget(g.key)
	}
}

// changed tells the VMs that moved, their old and new upstreams, and all
// below them, whose ancestors are others now.
func (c *Coordinator) changed(g *grove, moves []tree.Move, joined, left tree.VM, now time.Time) {
	affected := map[tree.VM]bool{}
	for _, m := range moves {
		for _, vm := range []tree.VM{m.VM, m.Old, m.New} {
			affected[vm] = true
		}
		below(g.tree, m.VM, m.Stripe, affected)
	}
	for vm := range affected {
		c.tell(g, vm, now)
	}
	c.metrics.moves.Add(float64(len(moves)))
	c.watches.publish(g, moves, joined, left)
	c.opts.Journal.Save(g.key, g.image())
}

func below(t tree.Tree, vm tree.VM, stripe int, into map[tree.VM]bool) {
	for _, d := range t.Downstream(vm, stripe) {
		if !into[d] {
			into[d] = true
			below(t, d, stripe, into)
		}
	}
}

// tell sends vm its place in g.
func (c *Coordinator) tell(g *grove, vm tree.VM, now time.Time) {
	s := c.sessions[member{g.key.Tenant, vm}]
	seat := g.members[vm]
	if s == nil || seat == nil {
		return
	}
	a, err := c.assignment(g, s, seat, now)
	if err != nil {
		s.refuse(g.key.Function, err.Error(), true)
		return
	}
	s.outbox.post(g.key.Function, &treepb.ToVM{Message: &treepb.ToVM_Assignment{Assignment: a}})
}

// seatWaiting places the VMs that came back: those with most blocks first, so
// that they stand near the root.
func (c *Coordinator) seatWaiting(g *grove, now time.Time) {
	arrivals := g.waiting
	g.waiting = nil
	slices.SortStableFunc(arrivals, func(a, b arrival) int { return cmp.Compare(b.blocks, a.blocks) })
	for _, a := range arrivals {
		if c.sessions[member{g.key.Tenant, a.vm}] != nil && !g.tree.Has(a.vm) {
			c.place(g, a.vm, a.blocks, now) // cannot fail: the name is new and not empty
		}
	}
	c.forgetEmpty(g)
}
