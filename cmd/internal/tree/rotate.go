package tree

import (
	"iter"
	"maps"
)

// rotating is the paper's own algorithm, section 4.2, kept as the baseline:
// insert below the first VM in breadth-first order with fewer than two
// downstream VMs; after a delete rotate where the heights of the two subtrees
// differ by more than one. There is no key order to keep, so a VM with two
// downstream VMs is replaced by a leaf of its higher subtree.
//
// Heights differ by at most one at every VM, hence the height is at most
// 1.44 log2(n+2), the bound of AVL trees, not that of a complete tree.
type rotating struct {
	root  *node
	at    map[VM]*node
	epoch uint64
}

type node struct {
	vm     VM
	up     *node
	down   [2]*node
	height int // 1 for a leaf
	room   int // steps down to the nearest VM with room for a downstream VM
}

func newRotating() *rotating { return &rotating{at: map[VM]*node{}} }

func (t *rotating) Insert(vm VM) ([]Move, error) {
	if err := checkInsert(t, vm); err != nil {
		return nil, err
	}
	n := &node{vm: vm, height: 1}
	t.at[vm] = n
	t.epoch++
	if t.root == nil {
		t.root = n
	} else {
		p := t.root
		for p.room > 0 {
			side := 0
			if p.down[1].room < p.down[0].room {
				side = 1
			}
			p = p.down[side]
		}
		side := 0
		if p.down[0] != nil {
			side = 1
		}
		p.down[side], n.up = n, p
		for ; p != nil; p = p.up {
			p.measure()
		}
	}
	return []Move{{VM: vm, New: t.Upstream(vm, 0), Epoch: t.epoch}}, nil
}

func (t *rotating) Delete(vm VM) ([]Move, error) {
	if err := checkDelete(t, vm); err != nil {
		return nil, err
	}
	var m moves
	x := t.at[vm]
	from := x.up
	switch {
	case x.down[0] != nil && x.down[1] != nil:
		from = t.replace(x, &m)
	case x.down[0] != nil:
		t.link(x.up, x, x.down[0], &m)
	default:
		t.link(x.up, x, x.down[1], &m)
	}
	delete(t.at, vm)
	t.rebalance(from, &m)
	t.epoch++
	return m.done(t, vm), nil
}

// replace puts a deepest leaf below x in x's place and returns where the
// heights begin to change.
func (t *rotating) replace(x *node, m *moves) (from *node) {
	leaf := x.higher()
	for leaf.height > 1 {
		leaf = leaf.higher()
	}
	from = leaf.up
	t.touch(leaf, m)
	t.link(leaf.up, leaf, nil, m)
	if from == x {
		from = leaf
	}
	for side, d := range x.down {
		leaf.down[side] = d
		if d != nil {
			t.touch(d, m)
			d.up = leaf
		}
	}
	t.link(x.up, x, leaf, m)
	return from
}

// rebalance walks from n to the root and rotates where needed.
func (t *rotating) rebalance(n *node, m *moves) {
	for ; n != nil; n = n.up {
		n.measure()
		switch lean := n.lean(); {
		case lean > 1:
			if n.down[0].lean() < 0 {
				t.rotate(n.down[0], 1, m) // left-right
			}
			n = t.rotate(n, 0, m) // right
		case lean < -1:
			if n.down[1].lean() > 0 {
				t.rotate(n.down[1], 0, m) // right-left
			}
			n = t.rotate(n, 1, m) // left
		}
	}
}

// rotate lifts the downstream VM of n on the given side above n.
func (t *rotating) rotate(n *node, side int, m *moves) *node {
	top := n.down[side]
	inner := top.down[1-side]
	t.touch(n, m)
	t.touch(top, m)
	t.link(n.up, n, top, m)
	n.down[side] = inner
	if inner != nil {
		t.touch(inner, m)
		inner.up = n
	}
	top.down[1-side], n.up = n, top
	n.measure()
	top.measure()
	return top
}

// link makes now stand below up where old stood.
func (t *rotating) link(up, old, now *node, m *moves) {
	if now != nil {
		t.touch(now, m)
		now.up = up
	}
	switch {
	case up == nil:
		t.root = now
	case up.down[0] == old:
		up.down[0] = now
	default:
		up.down[1] = now
	}
}

func (t *rotating) touch(n *node, m *moves) { m.touch(n.vm, 0, t.Upstream(n.vm, 0)) }

func (n *node) tall() int {
	if n == nil {
		return 0
	}
	return n.height
}

// lean is the height of the first subtree minus that of the second.
func (n *node) lean() int { return n.down[0].tall() - n.down[1].tall() }

func (n *node) higher() *node {
	if n.lean() >= 0 {
		return n.down[0]
	}
	return n.down[1]
}

// measure sets height and room from what is below n.
func (n *node) measure() {
	n.height = 1 + max(n.down[0].tall(), n.down[1].tall())
	n.room = 0
	if n.down[0] != nil && n.down[1] != nil {
		n.room = 1 + min(n.down[0].room, n.down[1].room)
	}
}

func (t *rotating) Has(vm VM) bool    { _, ok := t.at[vm]; return ok }
func (t *rotating) Len() int          { return len(t.at) }
func (t *rotating) Stripes() int      { return 1 }
func (t *rotating) Epoch() uint64     { return t.epoch }
func (t *rotating) All() iter.Seq[VM] { return maps.Keys(t.at) }

func (t *rotating) Root(int) VM {
	if t.root == nil {
		return Origin
	}
	return t.root.vm
}

func (t *rotating) Upstream(vm VM, _ int) VM {
	n := t.at[vm]
	if n == nil || n.up == nil {
		return Origin
	}
	return n.up.vm
}

func (t *rotating) Downstream(vm VM, _ int) []VM {
	n := t.at[vm]
	if n == nil {
		return nil
	}
	var down []VM
	for _, d := range n.down {
		if d != nil {
			down = append(down, d.vm)
		}
	}
	return down
}
