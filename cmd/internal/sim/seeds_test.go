//go:build sim

package sim

import (
	"fmt"
	"testing"
)

// fewSeeds are tried where nobody says how many.
const fewSeeds = 20

// Whatever happens to a fleet, every VM that is left has the whole image in the
// end, right to the last byte, and the tree works.
//
//	VMS=n    how many VMs; default: drawn from the seed
//	SEED=s   the first seed; default 1
//	SEEDS=n  how many seeds
func TestSeeds(t *testing.T) {
	vms, first, n := number(t, "VMS", 0), number(t, "SEED", 1), number(t, "SEEDS", fewSeeds)
	t.Run(fmt.Sprintf("%d seeds", n), func(t *testing.T) {
		right := 0
		for seed := first; seed < first+n; seed++ {
			p := newPlan(uint64(seed), vms)
			r := p.run(t, hooks{})
			if len(r.errs) == 0 {
				right++
			} else {
				t.Errorf("%v%v", p, &r)
			}
			for _, err := range r.errs {
				t.Errorf("    %v", err)
			}
			if n <= fewSeeds || (seed-first+1)%50 == 0 {
				t.Logf("seed %d: %v", seed, &r)
			}
		}
		t.Logf("%d of %d seeds: every VM complete and right", right, n)
	})
}
