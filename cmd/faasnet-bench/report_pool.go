package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/results"
	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/rivals"
)

// pool has the bursts of several files.
type pool []pooled

type pooled struct {
	burstRow
	faults bool // its file has bursts in which a VM was struck
}

// add takes the rows of a file as further repetitions of what is there, and
// systems that are not there as others of the same repetitions: one that takes
// long is measured by itself.
func (p *pool) add(rows []burstRow) {
	type measured struct {
		burstPlan
		rep int
	}
	there := map[measured]bool{}
	for _, r := range *p {
		there[measured{r.burstPlan, r.Rep}] = true
	}
	faults := slices.ContainsFunc(rows, func(r burstRow) bool { return r.Kill != (kill{}) })
	shift := 0
	for slices.ContainsFunc(rows, func(r burstRow) bool { return there[measured{r.burstPlan, r.Rep + shift}] }) {
		shift++
	}
	for _, r := range rows {
		r.Rep += shift
		*p = append(*p, pooled{r, faults})
	}
}

// groups sums up those that are compared with each other.
func (p *pool) groups() (all []results.Bursts, err error) {
	type group struct {
		image, rate, registry string
		full, faults          bool
	}
	keys, groups := by(*p, func(r pooled) group { return group{r.Image, r.Rate, r.RegistryRate, r.Full, r.faults} })
	for _, k := range keys {
		b := results.Bursts{Image: k.image, Rate: k.rate, RegistryRate: k.registry, Full: k.full, Faults: k.faults}
		var rows []burstRow
		for _, r := range groups[k] {
			rows = append(rows, r.burstRow)
		}
		sums := sumComparisons(rows)
		slices.SortStableFunc(sums, func(a, b compareSummary) int {
			return cmp.Or(a.VMs-b.VMs, place(a.System)-place(b.System), strings.Compare(a.called(), b.called()))
		})
		for _, s := range sums {
			r, err := results.RowOf(s)
			if err != nil {
				return nil, err
			}
			b.Rows = append(b.Rows, r)
		}
		all = append(all, b)
	}
	return all, nil
}

// place is where a system comes in tables.
func place(system string) int {
	return slices.IndexFunc(rivals.All(), func(s rivals.System) bool { return s.Name == system })
}
