package tree

import (
	"iter"
	"slices"
)

// complete is a heap: slot i reads from slot (i-1)/2. Insert fills the tree
// in breadth-first order, as the paper does; Delete puts the last VM in the
// hole. So the depth is always floor(log2 n), an insert moves nobody else,
// and a delete moves at most three VMs: the one from the last slot and the
// two below the hole.
type complete struct {
	slots []VM
	at    map[VM]int
	epoch uint64
}

func newComplete() *complete { return &complete{at: map[VM]int{}} }

func (t *complete) Insert(vm VM) ([]Move, error) {
	if err := checkInsert(t, vm); err != nil {
		return nil, err
	}
	t.at[vm] = len(t.slots)
	t.slots = append(t.slots, vm)
	t.epoch++
	return []Move{{VM: vm, New: t.Upstream(vm, 0), Epoch: t.epoch}}, nil
}

func (t *complete) Delete(vm VM) ([]Move, error) {
	if err := checkDelete(t, vm); err != nil {
		return nil, err
	}
	hole, end := t.at[vm], len(t.slots)-1
	last := t.slots[end]
	var m moves
	m.touch(last, 0, t.Upstream(last, 0))
	for _, d := range t.Downstream(vm, 0) {
		m.touch(d, 0, vm)
	}
	t.slots[hole], t.at[last] = last, hole
	t.slots = t.slots[:end]
	delete(t.at, vm)
	t.epoch++
	return m.done(t, vm), nil
}

func (t *complete) Has(vm VM) bool    { _, ok := t.at[vm]; return ok }
func (t *complete) Len() int          { return len(t.slots) }
func (t *complete) Stripes() int      { return 1 }
func (t *complete) Epoch() uint64     { return t.epoch }
func (t *complete) All() iter.Seq[VM] { return slices.Values(t.slots) }

func (t *complete) Root(int) VM {
	if len(t.slots) == 0 {
		return Origin
	}
	return t.slots[0]
}

func (t *complete) Upstream(vm VM, _ int) VM {
	i, ok := t.at[vm]
	if !ok || i == 0 {
		return Origin
	}
	return t.slots[(i-1)/2]
}

func (t *complete) Downstream(vm VM, _ int) []VM {
	i, ok := t.at[vm]
	if !ok || 2*i+1 >= len(t.slots) {
		return nil
	}
	return slices.Clone(t.slots[2*i+1 : min(2*i+3, len(t.slots))])
}
