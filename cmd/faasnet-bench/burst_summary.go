package main

import (
	"cmp"
	"errors"
	"fmt"
)

// burstSummary is what the bursts of a plan come to.
type burstSummary struct {
	burstPlan
	Reps int `json:"reps"`

	ReadyMedian   float64 `json:"ready_median_s"`
	ReadyP95      float64 `json:"ready_p95_s"`
	ReadyMax      float64 `json:"ready_max_s"`
	RegistryBytes int64   `json:"registry_bytes"`
	PeerBytes     int64   `json:"peer_bytes"`
	CPU           float64 `json:"cpu_s"`
	Reparented    int64   `json:"reparented"`
	FailedVMs     int     `json:"failed_vms"`   // over all repetitions
	FailedReads   int64   `json:"failed_reads"` // over all repetitions
	// Fallback is why a repetition of a lazy system was a full pull in truth.
	Fallback string `json:"fallback,omitempty"`
	// OverOne and EgressOverOne compare with the same system's bursts of one
	// VM in the same repetition, OverBound with the link's bound. 0: none.
	OverOne       float64 `json:"ready_over_one_vm,omitempty"`
	EgressOverOne float64 `json:"registry_bytes_over_one_vm,omitempty"`
	OverBound     float64 `json:"over_bound,omitempty"`
	// Added is by how many seconds the last VM is READY later than in the same
	// burst without a fault, in the same repetition.
	Added *float64 `json:"added_s,omitempty"`
}

// sumBursts pools the VMs of all repetitions for times, and takes medians over
// repetitions of the rest.
func sumBursts(rows []burstRow) (out []burstSummary) {
	plans, groups := by(rows, func(r burstRow) burstPlan { return r.burstPlan })
	ready := func(r burstRow) float64 { return r.ReadyMedian }
	egress := func(r burstRow) float64 { return float64(r.RegistryBytes) }
	for _, p := range plans {
		g := groups[p]
		sum := burstSummary{burstPlan: p, Reps: len(g)}
		var times []float64
		for _, r := range g {
			for _, vm := range r.PerVM {
				if vm.Error == "" && vm.VM != r.Struck {
					times = append(times, vm.Ready)
				}
			}
			sum.FailedVMs += r.FailedVMs
			sum.FailedReads += r.FailedReads
			sum.Fallback = cmp.Or(sum.Fallback, r.Fallback)
		}
		sum.ReadyMedian, sum.ReadyP95, sum.ReadyMax = median(times), percentile(times, 0.95), percentile(times, 1)
		sum.RegistryBytes = median(column(g, func(r burstRow) int64 { return r.RegistryBytes }))
		sum.PeerBytes = median(column(g, func(r burstRow) int64 { return r.PeerBytes }))
		sum.CPU = median(column(g, func(r burstRow) float64 { return r.CPU }))
		sum.Reparented = median(column(g, func(r burstRow) int64 { return int64(r.Reparented) }))
		one := p
		one.VMs, one.Kill = 1, kill{}
		sum.OverOne, sum.EgressOverOne = paired(g, groups[one], ready), paired(g, groups[one], egress)
		healthy := p
		healthy.Kill = kill{}
		if later := late(g, groups[healthy]); p.Kill != (kill{}) && len(later) > 0 {
			m := median(later)
			sum.Added = &m
		}
		if b := median(column(g, func(r burstRow) float64 { return r.Bound })); b > 0 {
			sum.OverBound = median(column(g, func(r burstRow) float64 { return r.ReadyMax / r.Bound }))
		}
		out = append(out, sum)
	}
	return out
}

// failures is an error when something failed on a VM that was not struck.
func failures(sums []burstSummary) error {
	var errs []error
	for _, s := range sums {
		if s.FailedVMs > 0 || s.FailedReads > 0 {
			errs = append(errs, fmt.Errorf("%v: %d VMs and %d reads failed", s.burstPlan, s.FailedVMs, s.FailedReads))
		}
	}
	return errors.Join(errs...)
}

// late gives by how much the last VM is later than in base, in each repetition
// that both have.
func late(rows, base []burstRow) (all []float64) {
	for _, r := range rows {
		for _, b := range base {
			if b.Rep == r.Rep {
				all = append(all, r.ReadyMax-b.ReadyMax)
			}
		}
	}
	return all
}

// paired is the median ratio of rows to base of the same repetition.
func paired(rows, base []burstRow, of func(burstRow) float64) float64 {
	var all []float64
	for _, r := range rows {
		for _, b := range base {
			if b.Rep == r.Rep && of(b) > 0 {
				all = append(all, of(r)/of(b))
			}
		}
	}
	return median(all)
}
