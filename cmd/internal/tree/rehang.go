package tree

import "slices"

// Rehang lets leaves of t read from whom they read before, as far as there is
// room: in a striped tree any VM may hang in any leaf slot of the other class'
// stripe. upstream says whom a VM read from. It is for a tree that has just
// been planted anew; nobody has been told of it, so there are no moves.
func Rehang(t Tree, upstream func(vm VM, stripe int) VM) {
	s, ok := t.(*striped)
	if !ok {
		return
	}
	for c := range s.slots {
		s.rehang(c, func(vm VM) VM { return upstream(vm, c) })
	}
	s.epoch++
}

// rehang takes all leaves out of tree c and puts first those back that find
// room where they were.
func (t *striped) rehang(c int, upstream func(VM) VM) {
	m := t.size[c]
	if m == 0 {
		return
	}
	from := m + 1 // the first leaf below the twin's
	leaves := slices.Clone(t.slots[c][from:])
	clear(t.slots[c][from:])
	var homeless []VM
	for _, vm := range leaves {
		if vm == Origin {
			continue
		}
		if i := t.room(c, upstream(vm)); i != none {
			t.slots[c][i] = vm
			t.put(vm, c, i)
		} else {
			homeless = append(homeless, vm)
		}
	}
	t.open[c] = slices.DeleteFunc(t.open[c], func(i int) bool { return i != twin })
	for i := from; i <= 2*m; i++ {
		switch {
		case t.slots[c][i] != Origin:
		case len(homeless) > 0:
			t.slots[c][i] = homeless[0]
			t.put(homeless[0], c, i)
			homeless = homeless[1:]
		default:
			t.open[c] = append(t.open[c], i)
		}
	}
}

// room is a free leaf slot of tree c below up, none if there is none.
func (t *striped) room(c int, up VM) int {
	p, ok := t.at[up]
	if !ok || p.class != c || p.at[c] == none {
		return none
	}
	for i := below(p.at[c]); i <= below(p.at[c])+1; i++ {
		if i > t.size[c] && t.slots[c][i] == Origin {
			return i
		}
	}
	return none
}
