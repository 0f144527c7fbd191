package coordinator

import (
	"time"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

// comeback is the time in which the VMs that an earlier coordinator had in a
// tree find their way to this one. They keep their old places meanwhile; VMs
// that are new are placed at once. At the end the tree is planted anew, with
// those that have most blocks near the root.
type comeback struct {
	since   time.Time
	last    time.Time        // when the last one came
	missing map[tree.VM]bool // the journal, or one that came back, has named them
	claims  map[tree.VM]claim
}

// awaits says whether at has to wait for the others, and begins a comeback
// where a VM comes back to a tree that has just come to be.
func (c *Coordinator) awaits(g *grove, comesBack bool, at *seat, now time.Time) bool {
	if g.back == nil {
		if !comesBack || now.Sub(g.born) > 2*c.opts.Settle {
			return false
		}
		c.expect(g, now)
	}
	return comesBack || g.back.missing[at.session.vm]
}

func (c *Coordinator) expect(g *grove, now time.Time) {
	g.back = &comeback{since: now, last: now, missing: map[tree.VM]bool{}, claims: map[tree.VM]claim{}}
	c.settling[g] = true
}

// arrive notes one that came back, and whom it names.
func (c *Coordinator) arrive(at *seat, j *treepb.Join, now time.Time) {
	b, g := at.grove.back, at.grove
	b.last = now
	delete(b.missing, at.session.vm)
	if len(j.Upstreams) != g.tree.Stripes() { // of another form of tree
		return
	}
	at.upstreams = make([]tree.VM, len(j.Upstreams))
	for i, up := range j.Upstreams {
		at.upstreams[i] = tree.VM(up)
	}
	for _, neighbours := range [][]string{j.Upstreams, j.Downstream} {
		for _, vm := range neighbours {
			if vm != "" && g.seats[tree.VM(vm)] == nil {
				b.missing[tree.VM(vm)] = true
			}
		}
	}
}

// settle plants the trees anew whose VMs are back.
func (c *Coordinator) settle(now time.Time) {
	for g := range c.settling {
		b := g.back
		complete := len(b.missing) == 0 && now.Sub(b.last) >= c.opts.Heartbeat
		if !complete && now.Sub(b.since) < c.opts.Settle {
			continue
		}
		g.back = nil
		delete(c.settling, g)
		if len(g.seats) > 0 {
			c.replant(g, b)
		}
		c.forgetEmpty(g)
	}
}

// replant makes the tree of all seats of g that are not suspended.
func (c *Coordinator) replant(g *grove, b *comeback) {
	claims := make([]claim, 0, len(g.seats))
	before := make(map[tree.VM][]tree.VM, len(g.seats))
	for vm, at := range g.seats {
		if !at.suspended.IsZero() {
			continue
		}
		cl := claim{vm: vm, blocks: at.blocks, upstreams: at.upstreams}
		if g.tree.Has(vm) {
			cl.upstreams = upstreams(g.tree, vm)
		} else if told, ok := b.claims[vm]; ok && cl.upstreams == nil {
			cl.upstreams = told.upstreams
		}
		claims = append(claims, cl)
		before[vm] = cl.upstreams
		at.upstreams = nil
	}
	g.base = g.epoch() + 1
	g.tree = c.newTree()
	for _, vm := range order(claims, g.tree.Stripes()) {
		if _, err := g.tree.Insert(vm); err != nil {
			panic(err) // names of seats are unique and not empty
		}
	}
	tree.Rehang(g.tree, func(vm tree.VM, stripe int) tree.VM {
		if up := before[vm]; stripe < len(up) {
			return up[stripe]
		}
		return tree.Origin
	})
	var moves []tree.Move
	for _, cl := range claims {
		for i := range g.tree.Stripes() {
			old := tree.Origin
			if i < len(cl.upstreams) {
				old = cl.upstreams[i]
			}
			if now := g.tree.Upstream(cl.vm, i); now != old {
				moves = append(moves, tree.Move{VM: cl.vm, Stripe: i, Old: old, New: now, Epoch: g.tree.Epoch()})
			}
		}
		c.tell(g.seats[cl.vm])
	}
	c.note(g, moves, tree.Origin, tree.Origin)
}

func upstreams(t tree.Tree, vm tree.VM) []tree.VM {
	up := make([]tree.VM, t.Stripes())
	for i := range up {
		up[i] = t.Upstream(vm, i)
	}
	return up
}

// Restore tells what the tree of k was, before this coordinator kept it: VMs
// that come back within Options.Settle find it as it was, as far as they still
// hold what they held.
func (c *Coordinator) Restore(k Key, t *treepb.Tree) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.opts.Journal.Owner(k, nil) != "" {
		return
	}
	g := c.grove(k, now)
	g.outrun(t.Epoch, now)
	for _, n := range t.Nodes {
		vm := tree.VM(n.GetPeer().GetVm())
		if vm == tree.Origin || len(n.Upstreams) != g.tree.Stripes() {
			continue
		}
		if g.back == nil {
			c.expect(g, now)
		}
		cl := claim{vm: vm, blocks: n.Blocks}
		for _, up := range n.Upstreams {
			cl.upstreams = append(cl.upstreams, tree.VM(up))
		}
		g.back.claims[vm] = cl
		if g.seats[vm] == nil {
			g.back.missing[vm] = true
		}
	}
	c.forgetEmpty(g)
}
