package sim

import (
	"slices"
	"testing"

	"github.com/faasnet/faasnet/cmd/internal/tree"
)

// ruleWithin is by how much the rule may be off, in parts of one.
const ruleWithin = 0.05

// The rule and the product agree on when starts are READY, one or many on a VM, and
// on what the registry sends.
func TestFlowIsNearTheProduct(t *testing.T) {
	vms := []int{8, 32}
	if long() {
		vms = append(vms, 128)
	}
	for _, form := range []tree.Form{tree.Striped, tree.Complete} {
		for _, n := range vms {
			for _, starts := range []int{n, n * 5 / 2} {
				b := many(n, starts, form)
				product := b.Run(t)
				rule, err := b.Flow()
				if err != nil {
					t.Fatal(err)
				}
				for what, at := range map[string]float64{"median": 0.5, "last": 1} {
					off := rule.ready(at)/product.ready(at) - 1
					t.Logf("%s, %d starts on %d VMs, %s: %.2f s by rule, %.2f s lived through, %+.1f %%", form, starts, n, what, rule.ready(at), product.ready(at), off*100)
					if off < -ruleWithin || off > ruleWithin {
						t.Errorf("off by %+.1f %%", off*100)
					}
				}
				if rule.Registry > product.Registry || rule.Depth != product.Depth {
					t.Errorf("%s, %d VMs: %d bytes from the registry and depth %d by rule, %d and %d lived through", form, n, rule.Registry, rule.Depth, product.Registry, product.Depth)
				}
			}
		}
	}
}

// many are starts of an image as large as that of the paper's Fig. 17, whose
// function computes as a large Python program does.
func many(vms, starts int, form tree.Form) Burst {
	return Burst{
		System: Tree, Form: form, VMs: vms, Starts: starts, Rate: 1e9, Registry: 5e9, Cores: 2, Scale: 32,
		Image: Image{Layers: 29, Bytes: 428e6, Section: 700e3, Blocks: 131, Block: BlockSize, Run: 4},
		Costs: Costs{Receive: 2.2e-9, Send: 1e-9, Decode: 1.1e-9},
		Start: Start{Pull: Phase{0.24, 0.12}, Create: Phase{0.25, 0.16}, Run: Phase{0.86, 0.78}, Serve: 0.29},
	}
}

// ready is after how many seconds a part of all starts were READY.
func (f Figures) ready(part float64) float64 {
	var all []float64
	for _, s := range f.Starts {
		all = append(all, s.Ready)
	}
	slices.Sort(all)
	return all[int(part*float64(len(all)-1))]
}
