package sim

import (
	"testing"

	"github.com/faasnet/faasnet/cmd/internal/tree"
)

// What is fetched while the container is made need not be waited for then, by rule
// as in the product's code and in a trace.
func TestRecordedStartsAreSooner(t *testing.T) {
	for _, form := range []tree.Form{tree.Striped, tree.Complete} {
		for _, n := range []int{1, 16} {
			b := small(Tree, n)
			b.Form = form
			plain := b.Run(t)
			b.Recorded = true
			product := b.Run(t)
			rule, err := b.Flow()
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range product.Starts {
				if s.Error != "" {
					t.Error(s.Error)
				}
			}
			off := rule.ready(0.5)/product.ready(0.5) - 1
			t.Logf("%s, %d VMs: READY after %.2f s, recorded %.2f s, by rule %.2f s (%+.1f %%)", form, n, plain.ready(0.5), product.ready(0.5), rule.ready(0.5), off*100)
			if gain := plain.ready(0.5) - product.ready(0.5); gain < b.Start.Create.Wall/2 {
				t.Errorf("%.2f s sooner, want the time of the container's making, %.2f s", gain, b.Start.Create.Wall)
			}
			if off < -0.15 || off > 0.15 {
				t.Errorf("the rule is off by %+.1f %%", off*100)
			}
		}
	}
	tr := Trace{Burst: small(Tree, 40), Length: 60, Handle: 1, Idle: 60, Rates: []RateFrom{{0, 5}}}
	tr.Form = tree.Striped
	var took [2]float64
	for i, recorded := range []bool{false, true} {
		tr.Recorded = recorded
		got, err := tr.Run(1)
		if err != nil {
			t.Fatal(err)
		}
		took[i] = got.Provision[0]
	}
	if t.Logf("first cold start of a trace: %.2f s, recorded %.2f s", took[0], took[1]); took[1] >= took[0] {
		t.Error("a recorded one is no sooner")
	}
}
