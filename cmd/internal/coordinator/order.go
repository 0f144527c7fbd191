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
// they claim. A complete tree comes out as it was, and so does the interior of
// a striped one.
func order(claims []claim, stripes int) []tree.VM {
	var most uint64
	for _, cl := range claims {
		most = max(most, cl.blocks)
	}
	type rank struct {
		part  uint64 // 0 has most blocks
		inner int    // place among the inner VMs of its stripe
		class int
		leaf  int
	}
	ranks := make(map[tree.VM]*rank, len(claims))
	for _, cl := range claims {
		ranks[cl.vm] = &rank{part: (most - cl.blocks) / (most/parts + 1), inner: math.MaxInt, leaf: math.MaxInt}
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

// breadthFirst returns the VMs as one stripe had them, from its root down and
// the fuller half first, as a heap has them. VMs whose upstream is not there
// begin trees of their own; of a ring, which only lies can make, nobody is
// returned.
func breadthFirst(claims []claim, stripe int) []node {
	there := make(map[tree.VM]bool, len(claims))
	for _, cl := range claims {
		there[cl.vm] = true
	}
	below := map[tree.VM][]tree.VM{}
	var roots []tree.VM
	for _, cl := range claims {
		switch {
		case stripe >= len(cl.upstreams):
		case there[cl.upstreams[stripe]]:
			below[cl.upstreams[stripe]] = append(below[cl.upstreams[stripe]], cl.vm)
		default:
			roots = append(roots, cl.vm)
		}
	}
	weights := map[tree.VM]weight{}
	for _, vm := range roots {
		weigh(vm, below, weights)
	}
	fuller := func(a, b tree.VM) int {
		x, y := weights[a], weights[b]
		return cmp.Or(cmp.Compare(y.inner, x.inner), cmp.Compare(y.all, x.all), cmp.Compare(a, b))
	}
	slices.SortFunc(roots, fuller)
	out := make([]node, 0, len(claims))
	for queue := roots; len(queue) > 0; queue = queue[1:] {
		down := below[queue[0]]
		slices.SortFunc(down, fuller)
		queue = append(queue, down...)
		out = append(out, node{queue[0], len(down) > 0})
	}
	return out
}

// weight is how many VMs are in a part of a tree, and how many of them serve.
type weight struct{ inner, all int }

// weigh fills in the weights of vm and of all below it, who read from it and
// thus cannot be above it.
func weigh(vm tree.VM, below map[tree.VM][]tree.VM, weights map[tree.VM]weight) weight {
	w := weight{all: 1}
	if len(below[vm]) > 0 {
		w.inner++
	}
	for _, d := range below[vm] {
		x := weigh(d, below, weights)
		w.inner += x.inner
		w.all += x.all
	}
	weights[vm] = w
	return w
}
