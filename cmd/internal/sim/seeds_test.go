package sim

import (
	"fmt"
	"testing"
)

// How many seeds are tried where nobody says: in `make test`, and in `make sim`,
// where one that is named is tried alone.
const fewSeeds, manySeeds = 20, 1000

// Whatever happens to a fleet, every VM that is left has the whole image in the
// end, right to the last byte, and the tree works.
//
//	VMS=n    how many VMs; default: drawn from the seed
//	SEED=s   the first seed; default 1
//	SEEDS=n  how many seeds
func TestSeeds(t *testing.T) {
	vms, first, n := number(t, "VMS", 0), number(t, "SEED", 0), fewSeeds
	switch {
	case first > 0 || vms > 0:
		n = 1
	case long():
		n = manySeeds
	}
	first, n = max(1, first), number(t, "SEEDS", n)
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
