package coordinator

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

// Tree returns the tree of k as it is now, nil if there is none. Nodes are
// sorted by depth. What it holds must not be changed.
func (c *Coordinator) Tree(k Key) *treepb.Tree {
	t, rows := c.copyTree(k)
	if t == nil {
		return nil
	}
	at := make(map[tree.VM]int, len(rows))
	for i, r := range rows {
		at[r.vm] = i
	}
	for _, r := range rows {
		n := &treepb.Node{
			Peer: r.session.peer, Blocks: r.blocks, Joined: timestamppb.New(r.joined),
			Upstreams: make([]string, t.Stripes), Depths: make([]uint32, t.Stripes),
			RelayedBytes: r.load.RelayedBytes, ReadBytes: r.load.ReadBytes, Children: r.load.Children,
		}
		for s := range n.Upstreams {
			n.Upstreams[s] = string(r.up[s])
			for up := r.up[s]; up != tree.Origin; up = rows[at[up]].up[s] {
				n.Depths[s]++
			}
		}
		t.Nodes = append(t.Nodes, n)
	}
	slices.SortFunc(t.Nodes, func(a, b *treepb.Node) int {
		return cmp.Or(slices.Compare(a.Depths, b.Depths), cmp.Compare(a.Peer.Vm, b.Peer.Vm))
	})
	return t
}

// row is a seat that is placed, as a snapshot needs it.
type row struct {
	vm      tree.VM
	session *session // only what does not change
	blocks  uint64
	joined  time.Time
	load    *treepb.Heartbeat
	up      [stripes]tree.VM
}

// stripes is what a tree has at most.
const stripes = 2

// copyTree does what needs the lock.
func (c *Coordinator) copyTree(k Key) (*treepb.Tree, []row) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groves[k]
	if g == nil {
		return nil, nil
	}
	rows := make([]row, 0, g.tree.Len())
	for vm := range g.tree.All() {
		at := g.seats[vm]
		r := row{vm: vm, session: at.session, blocks: at.blocks, joined: at.joined, load: at.session.load}
		for i := range g.tree.Stripes() {
			r.up[i] = g.tree.Upstream(vm, i)
		}
		rows = append(rows, r)
	}
	return &treepb.Tree{
		Function: &treepb.Function{Tenant: k.Tenant, Id: k.Function},
		Epoch:    g.epoch(), Form: string(c.opts.Form), Stripes: uint32(g.tree.Stripes()),
	}, rows
}

// depth is that of a tree, kept until the tree changes.
type depth struct {
	epoch uint64
	max   uint32
}

// depth returns how far the VM that is furthest from the origin is from its
// root. c.mu is held.
func (g *grove) depth() uint32 {
	if g.deep.epoch != g.epoch() {
		g.deep = depth{epoch: g.epoch()}
		for i := range g.tree.Stripes() {
			g.deep.max = max(g.deep.max, under(g.tree, g.tree.Root(i), i))
		}
	}
	return g.deep.max
}

func under(t tree.Tree, vm tree.VM, stripe int) (deepest uint32) {
	for _, d := range t.Downstream(vm, stripe) {
		deepest = max(deepest, 1+under(t, d, stripe))
	}
	return deepest
}
