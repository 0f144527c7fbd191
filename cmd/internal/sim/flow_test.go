package sim

import (
	"slices"
	"testing"

	"github.com/faasnet/faasnet/cmd/internal/tree"
)

// The rule and the product agree on when the last of some VMs is READY where links
// are as fast as in the figures. With two stripes on slow ones the rule is too
// fast: it has no queues.
func TestFlowIsNearTheProduct(t *testing.T) {
	for _, form := range []tree.Form{tree.Striped, tree.Complete} {
		for _, rate := range []int64{500e6, 1e9} {
			b := small(Tree, 24)
			b.Form, b.Rate, b.Registry, b.Image.Run = form, rate, 5*rate, 4
			b.Image.Blocks = 48
			product := b.Run(t)
			rule, err := b.Flow()
			if err != nil {
				t.Fatal(err)
			}
			last := func(f Figures) float64 {
				return slices.MaxFunc(f.Starts, func(a, b Begun) int { return int(1e6 * (a.Ready - b.Ready)) }).Ready
			}
			off := last(rule)/last(product) - 1
			t.Logf("%s at %d Mbit/s: %.2f s by rule, %.2f s lived through, %+.0f %%", form, rate/1e6, last(rule), last(product), off*100)
			if off < -0.25 || off > 0.25 {
				t.Errorf("%s at %d Mbit/s: off by %+.0f %%", form, rate/1e6, off*100)
			}
			if rule.Registry > product.Registry || rule.Depth != product.Depth {
				t.Errorf("%s: %d bytes from the registry and depth %d by rule, %d and %d lived through", form, rule.Registry, rule.Depth, product.Registry, product.Depth)
			}
		}
	}
}
