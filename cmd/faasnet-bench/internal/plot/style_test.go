package plot

import (
	"slices"
	"testing"
)

// All of a system has its colour, and each variant of it lines of its own.
func TestVariantsOfASystem(t *testing.T) {
	all := styles([]Series{{Name: "faasnet"}, {Name: "faasnet: one tree"}, {Name: "faasnet, recorded"}, {Name: "overlayfs"}})
	for i := range 3 {
		if all[i].color != all[0].color || all[i].color == all[3].color {
			t.Errorf("%d: the colour is %v", i, all[i].color)
		}
		for k := range i {
			if slices.Equal(all[i].dash, all[k].dash) {
				t.Errorf("%d is drawn as %d", i, k)
			}
		}
	}
}
