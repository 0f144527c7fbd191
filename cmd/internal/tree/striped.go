package tree

import (
	"iter"
	"maps"
	"slices"
)

// striped keeps two interior-disjoint binary trees (SplitStream's idea, at
// the paper's fan-out). Every VM has a class, 0 or 1; their sizes differ by
// at most one. Class c is the interior of tree c and hangs in the other tree
// as leaves, so a VM serves two VMs at most, all in one stripe, and every
// uplink carries the image once.
//
// Tree c with m VMs of its class has 2m+1 slots (slots.go), of which at most two
// leaves are free. With m = 0 there is no tree and everybody reads the stripe
// from the origin.
//
// An insert moves at most one VM besides the new one: the leaf whose slot
// turns interior. A delete moves at most five: who fills the interior hole,
// the two below it, and the two leaves whose slots vanish with the last
// interior VM. Who becomes a root moves in both stripes.
type striped struct {
	slots [2][]VM
	size  [2]int   // VMs of the class, m
	open  [2][]int // the free leaf slots, two at most between changes
	at    map[VM]place
	epoch uint64
}

// place is where a VM stands: slot at[c] of tree c, none when there is no
// tree c.
type place struct {
	class int
	at    [2]int
}

const none = -1

func newStriped() *striped { return &striped{at: map[VM]place{}} }

func (t *striped) Insert(vm VM) ([]Move, error) {
	if err := checkInsert(t, vm); err != nil {
		return nil, err
	}
	var m moves
	m.touch(vm, 0, Origin)
	m.touch(vm, 1, Origin)
	c := 0
	if t.size[1] < t.size[0] {
		c = 1
	}
	t.at[vm] = place{class: c, at: [2]int{none, none}}
	t.grow(c, vm, &m)
	t.hang(1-c, vm, &m)
	t.pair(&m)
	t.epoch++
	return m.done(t, Origin), nil
}

func (t *striped) Delete(vm VM) ([]Move, error) {
	if err := checkDelete(t, vm); err != nil {
		return nil, err
	}
	var m moves
	p := t.at[vm]
	c, o := p.class, 1-p.class
	for _, d := range t.Downstream(vm, c) {
		m.touch(d, c, vm)
	}
	t.free(o, p.at[o])
	if t.size[o] > t.size[c] {
		t.promote(vm, &m)
	} else {
		end := last(t.size[c])
		z := t.slots[c][end]
		t.touch(z, c, &m)
		for _, d := range t.Downstream(z, c) {
			m.touch(d, c, z)
		}
		t.slots[c][end] = Origin
		if z != vm {
			t.set(c, p.at[c], z)
		}
		t.shrink(c, &m)
	}
	delete(t.at, vm)
	t.pair(&m)
	t.epoch++
	return m.done(t, vm), nil
}

// promote replaces vm by the last VM of the other, larger class, which
// changes class: its interior slot turns into its leaf slot, so in that tree
// it keeps its upstream.
func (t *striped) promote(vm VM, m *moves) {
	p := t.at[vm]
	c, o := p.class, 1-p.class
	z := t.slots[o][last(t.size[o])]
	t.touch(z, 0, m)
	t.touch(z, 1, m)
	zp := t.at[z]
	t.free(c, zp.at[c])
	zp.class = c
	t.at[z] = zp
	t.set(c, p.at[c], z)
	t.shrink(o, m)
	if t.at[z].at[o] == none {
		t.hang(o, z, m)
	}
}

// grow makes vm the last interior VM of tree c. The leaf that stands there
// becomes a leaf below it.
func (t *striped) grow(c int, vm VM, m *moves) {
	n := t.size[c]
	t.size[c]++
	if n == 0 {
		t.slots[c], t.open[c] = []VM{vm, Origin, Origin}, []int{1, 2}
		t.put(vm, c, 0)
		for leaf, p := range t.at { // at most one VM: the classes differ by one
			if p.class != c {
				t.hang(c, leaf, m)
			}
		}
		return
	}
	t.slots[c] = append(t.slots[c], Origin, Origin)
	t.open[c] = append(t.open[c], 2*n+1, 2*n+2)
	i := last(n + 1)
	leaf := t.slots[c][i]
	if leaf != Origin {
		t.touch(leaf, c, m)
		t.set(c, below(i), leaf)
	}
	t.set(c, i, vm)
}

// shrink takes the last interior slot from tree c, whose VM has been taken
// out or keeps the slot as a leaf, and with it the two last leaf slots.
func (t *striped) shrink(c int, m *moves) {
	n := t.size[c] - 1
	t.size[c] = n
	tail := [2]VM{t.slots[c][2*n+1], t.slots[c][2*n+2]}
	for _, leaf := range tail {
		if leaf != Origin {
			t.touch(leaf, c, m)
		}
	}
	if n == 0 {
		for _, leaf := range [...]VM{t.slots[c][0], tail[0], tail[1]} {
			if leaf != Origin {
				t.put(leaf, c, none)
			}
		}
		t.slots[c], t.open[c] = nil, nil
		return
	}
	t.slots[c] = t.slots[c][:2*n+1]
	t.open[c] = slices.DeleteFunc(t.open[c], func(i int) bool { return i > 2*n })
	if i := last(n + 1); t.slots[c][i] == Origin {
		t.open[c] = append(t.open[c], i)
	}
	for _, leaf := range tail {
		if leaf != Origin {
			t.put(leaf, c, none)
			t.hang(c, leaf, m)
		}
	}
}

// hang puts vm in a free leaf slot of tree c. There is one, since the other
// class has at most one VM more than this one, and once its root has the twin's
// slot that is not free.
func (t *striped) hang(c int, vm VM, m *moves) {
	t.touch(vm, c, m)
	if t.size[c] == 0 {
		return
	}
	if t.seat(c, m); t.at[vm].at[c] == none { // else it is that root
		t.set(c, slices.Min(t.open[c]), vm)
	}
}

// pair sees to it that each root hangs right below the other.
func (t *striped) pair(m *moves) {
	t.seat(0, m)
	t.seat(1, m)
}

// seat puts the root of the other tree in its slot of tree c, where nobody else
// ever hangs.
func (t *striped) seat(c int, m *moves) {
	if t.size[0] == 0 || t.size[1] == 0 {
		return
	}
	root := t.slots[1-c][0]
	if i := t.at[root].at[c]; i != twin {
		t.touch(root, c, m)
		t.free(c, i)
		t.set(c, twin, root)
	}
}

// free empties leaf slot i of tree c.
func (t *striped) free(c, i int) {
	if i != none {
		t.slots[c][i] = Origin
		t.open[c] = append(t.open[c], i)
	}
}

// set puts vm in slot i of tree c.
func (t *striped) set(c, i int, vm VM) {
	t.slots[c][i] = vm
	t.open[c] = slices.DeleteFunc(t.open[c], func(o int) bool { return o == i })
	t.put(vm, c, i)
}

func (t *striped) put(vm VM, c, i int) {
	p := t.at[vm]
	p.at[c] = i
	t.at[vm] = p
}

func (t *striped) touch(vm VM, c int, m *moves) { m.touch(vm, c, t.Upstream(vm, c)) }

func (t *striped) Has(vm VM) bool    { _, ok := t.at[vm]; return ok }
func (t *striped) Len() int          { return len(t.at) }
func (t *striped) Stripes() int      { return 2 }
func (t *striped) Epoch() uint64     { return t.epoch }
func (t *striped) All() iter.Seq[VM] { return maps.Keys(t.at) }

func (t *striped) Root(stripe int) VM {
	if t.size[stripe] > 0 {
		return t.slots[stripe][0]
	}
	for vm := range t.at { // alone, a VM is the root of both stripes
		return vm
	}
	return Origin
}

func (t *striped) Upstream(vm VM, stripe int) VM {
	p, ok := t.at[vm]
	if !ok || p.at[stripe] <= 0 {
		return Origin
	}
	return t.slots[stripe][above(p.at[stripe])]
}

func (t *striped) Downstream(vm VM, stripe int) []VM {
	p, ok := t.at[vm]
	if !ok || p.class != stripe {
		return nil
	}
	i := below(p.at[stripe])
	var down []VM
	for _, d := range t.slots[stripe][i : i+2] {
		if d != Origin {
			down = append(down, d)
		}
	}
	return down
}
