package coordinator

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/faasnet/faasnet/cmd/internal/tree"
)

// claim is what a VM, or the journal, says of the VM's last place.
type claim struct {
	vm        tree.VM
	blocks    uint64
	upstreams []tree.VM // of each stripe; nil: none known
}

// parts is into how many parts the range of block counts is divided: VMs of
// one part count as equal, so that a tree in the midst of a burst, where
// everybody lags a little behind its upstream, keeps its shape.
const parts = 8

// order returns the VMs as they are to be inserted into a new tree: those with
// most blocks first, and equal ones so that inner VMs get the places back that
// they claim. A tree of one stripe comes out as it was; of two stripes the
// interiors do, leaves may hang elsewhere.
func order(claims []claim, stripes int) []tree.VM {
	var most uint64
	for _, cl := range claims {
		most = max(most, cl.blocks)
	}
	type rank struct {
		part  int // 0 has most blocks
		inner int // place among the inner VMs of its stripe
		class int
		leaf  int
	}
	ranks := make(map[tree.VM]*rank, len(claims))
	for _, cl := range claims {
		r := &rank{inner: math.MaxInt, leaf: math.MaxInt}
		if most > 0 {
			r.part = parts - int(float64(cl.blocks)/float64(most)*parts)
		}
		ranks[cl.vm] = r
	}
	for s := range stripes {
		inner := 0
		for i, n := range breadthFirst(claims, s) {
			r := ranks[n.vm]
			if s == 0 {
				r.leaf = i
			}
			if n.inner && inner < r.inner {
				r.inner, r.class = inner, s
			}
			if n.inner {
				inner++
			}
		}
	}
	return slices.SortedFunc(maps.Keys(ranks), func(a, b tree.VM) int {
		x, y := ranks[a], ranks[b]
		return cmp.Or(cmp.Compare(x.part, y.part), cmp.Compare(x.inner, y.inner), cmp.Compare(x.class, y.class),
			cmp.Compare(x.leaf, y.leaf), cmp.Compare(a, b))
	})
}

type node struct {
	vm    tree.VM
	inner bool
}

// breadthFirst returns the VMs as one stripe had them, from its root down. VMs
// whose upstream is not there begin trees of their own; of a ring, which only
// lies can make, nobody is returned.
func breadthFirst(claims []claim, stripe int) []node {
	there := make(map[tree.VM]bool, len(claims))
	for _, cl := range claims {
		there[cl.vm] = true
	}
	below := map[tree.VM][]tree.VM{}
	var queue []tree.VM
	for _, cl := range claims {
		switch {
		case stripe >= len(cl.upstreams):
		case there[cl.upstreams[stripe]]:
			below[cl.upstreams[stripe]] = append(below[cl.upstreams[stripe]], cl.vm)
		default:
			queue = append(queue, cl.vm)
		}
	}
	slices.Sort(queue)
	out := make([]node, 0, len(claims))
	for len(queue) > 0 {
		vm := queue[0]
		down := below[vm]
		slices.Sort(down)
		queue = append(queue[1:], down...)
		out = append(out, node{vm, len(down) > 0})
	}
	return out
}
