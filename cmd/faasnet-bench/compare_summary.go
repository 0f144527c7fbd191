package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
)

// compareSummary is what a system's bursts come to, beside ours with a tree.
type compareSummary struct {
	burstSummary
	ReceivedBytes int64 `json:"received_bytes"` // of a VM
	PeakMemory    int64 `json:"peak_memory_bytes"`
	Disk          int64 `json:"disk_bytes"`
	// How often ours goes into the system's figure: medians of the ratios
	// within repetitions. 0: there is none.
	ReadyOver    float64 `json:"ready_over_faasnet,omitempty"`
	RegistryOver float64 `json:"registry_bytes_over_faasnet,omitempty"`
	CPUOver      float64 `json:"cpu_over_faasnet,omitempty"`
}

func sumComparisons(rows []burstRow) (out []compareSummary) {
	groups := map[burstPlan][]burstRow{}
	ours := map[int][]burstRow{} // by VMs
	for _, r := range rows {
		groups[r.burstPlan] = append(groups[r.burstPlan], r)
		if r.System == withTree {
			ours[r.VMs] = append(ours[r.VMs], r)
		}
	}
	for _, s := range sumBursts(rows) {
		g, base := groups[s.burstPlan], ours[s.VMs]
		out = append(out, compareSummary{
			burstSummary:  s,
			ReceivedBytes: median(column(g, func(r burstRow) int64 { return r.ReceivedBytes })),
			PeakMemory:    median(column(g, func(r burstRow) int64 { return r.PeakMemory })),
			Disk:          median(column(g, func(r burstRow) int64 { return r.Disk })),
			ReadyOver:     paired(g, base, func(r burstRow) float64 { return r.ReadyMedian }),
			RegistryOver:  paired(g, base, func(r burstRow) float64 { return float64(r.RegistryBytes) }),
			CPUOver:       paired(g, base, func(r burstRow) float64 { return r.CPU }),
		})
	}
	return out
}

func printComparisons(w io.Writer, sums []compareSummary) error {
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "system\tVMs\treps\tREADY s\tp95\tmax\tof ours\tregistry MB\tof ours\tMB a VM\tpeers MB\tCPU s\tof ours\tpeak MB\tdisk MB\tfailed\t")
	for _, s := range sums {
		fmt.Fprintf(t, "%s\t%d\t%d\t%.2f\t%.2f\t%.2f\t%s\t%.1f\t%s\t%.1f\t%.1f\t%.1f\t%s\t%.0f\t%.0f\t%d\t\n", s.System, s.VMs, s.Reps,
			s.ReadyMedian, s.ReadyP95, s.ReadyMax, ratio("%.2fx", s.ReadyOver), float64(s.RegistryBytes)/mega, ratio("%.2fx", s.RegistryOver),
			float64(s.ReceivedBytes)/mega, float64(s.PeerBytes)/mega, s.CPU, ratio("%.2fx", s.CPUOver), float64(s.PeakMemory)/mega, float64(s.Disk)/mega, s.FailedVMs)
	}
	return t.Flush()
}

// oursFailed is an error when something failed on VMs of ours; that something
// of others failed is a result.
func oursFailed(sums []compareSummary) error {
	var errs []error
	for _, s := range sums {
		if s.system().Ours {
			errs = append(errs, failures([]burstSummary{s.burstSummary}))
		}
	}
	return errors.Join(errs...)
}
