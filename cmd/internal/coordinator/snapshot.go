package coordinator

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

// Tree returns the tree of k as it is now, nil if there is none. Nodes are
// sorted by depth. What it holds must not be changed.
func (c *Coordinator) Tree(k Key) *treepb.Tree {
	t := c.copyTree(k)
	if t == nil {
		return nil
	}
	at := make(map[string]*treepb.Node, len(t.Nodes))
	for _, n := range t.Nodes {
		at[n.Peer.Vm] = n
	}
	for _, n := range t.Nodes {
		for s := range n.Upstreams {
			n.Depths[s] = depthOf(at, n, s)
		}
	}
	slices.SortFunc(t.Nodes, func(a, b *treepb.Node) int {
		return cmp.Or(slices.Compare(a.Depths, b.Depths), cmp.Compare(a.Peer.Vm, b.Peer.Vm))
	})
	return t
}

func depthOf(at map[string]*treepb.Node, n *treepb.Node, stripe int) (depth uint32) {
	for up := at[n.Upstreams[stripe]]; up != nil; up = at[up.Upstreams[stripe]] {
		depth++
	}
	return depth
}

// copyTree does what needs the lock.
func (c *Coordinator) copyTree(k Key) *treepb.Tree {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groves[k]
	if g == nil {
		return nil
	}
	t := &treepb.Tree{
		Function: &treepb.Function{Tenant: k.Tenant, Id: k.Function},
		Epoch:    g.epoch(), Form: string(c.opts.Form), Stripes: uint32(g.tree.Stripes()),
		Nodes: make([]*treepb.Node, 0, g.tree.Len()),
	}
	for vm := range g.tree.All() {
		at := g.seats[vm]
		n := &treepb.Node{
			Peer: at.session.peer(), Blocks: at.blocks, Joined: timestamppb.New(at.joined),
			Upstreams: make([]string, t.Stripes), Depths: make([]uint32, t.Stripes),
			RelayedBytes: at.session.load.RelayedBytes, ReadBytes: at.session.load.ReadBytes, Children: at.session.load.Children,
		}
		for i := range n.Upstreams {
			n.Upstreams[i] = string(g.tree.Upstream(vm, i))
		}
		t.Nodes = append(t.Nodes, n)
	}
	return t
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
