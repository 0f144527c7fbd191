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
	// How often ours goes into the system's figure, with a plain and with a
	// recorded image: medians of the ratios within repetitions. 0: there is none.
	ReadyOver            float64 `json:"ready_over_faasnet,omitempty"`
	RegistryOver         float64 `json:"registry_bytes_over_faasnet,omitempty"`
	CPUOver              float64 `json:"cpu_over_faasnet,omitempty"`
	ReadyOverRecorded    float64 `json:"ready_over_recorded,omitempty"`
	RegistryOverRecorded float64 `json:"registry_bytes_over_recorded,omitempty"`
	CPUOverRecorded      float64 `json:"cpu_over_recorded,omitempty"`
}

func sumComparisons(rows []burstRow) (out []compareSummary) {
	type size struct {
		vms      int
		recorded bool
	}
	groups := map[burstPlan][]burstRow{}
	ours := map[size][]burstRow{}
	for _, r := range rows {
		groups[r.burstPlan] = append(groups[r.burstPlan], r)
		if r.System == withTree {
			k := size{r.VMs, r.Recorded}
			ours[k] = append(ours[k], r)
		}
	}
	ready := func(r burstRow) float64 { return r.ReadyMedian }
	registry := func(r burstRow) float64 { return float64(r.RegistryBytes) }
	cpu := func(r burstRow) float64 { return r.CPU }
	for _, s := range sumBursts(rows) {
		g, plain, recorded := groups[s.burstPlan], ours[size{s.VMs, false}], ours[size{s.VMs, true}]
		out = append(out, compareSummary{
			burstSummary:  s,
			ReceivedBytes: median(column(g, func(r burstRow) int64 { return r.ReceivedBytes })),
			PeakMemory:    median(column(g, func(r burstRow) int64 { return r.PeakMemory })),
			Disk:          median(column(g, func(r burstRow) int64 { return r.Disk })),
			ReadyOver:     paired(g, plain, ready), RegistryOver: paired(g, plain, registry), CPUOver: paired(g, plain, cpu),
			ReadyOverRecorded: paired(g, recorded, ready), RegistryOverRecorded: paired(g, recorded, registry), CPUOverRecorded: paired(g, recorded, cpu),
		})
	}
	return out
}

func printComparisons(w io.Writer, sums []compareSummary) error {
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "system\tVMs\treps\tREADY s\tp95\tmax\tof ours\tof recorded\tregistry MB\tof ours\tMB a VM\tpeers MB\tCPU s\tof ours\tpeak MB\tdisk MB\tfailed\t")
	for _, s := range sums {
		fmt.Fprintf(t, "%s\t%d\t%d\t%.2f\t%.2f\t%.2f\t%s\t%s\t%.1f\t%s\t%.1f\t%.1f\t%.1f\t%s\t%.0f\t%.0f\t%d\t\n", s.called(), s.VMs, s.Reps,
			s.ReadyMedian, s.ReadyP95, s.ReadyMax, ratio("%.2fx", s.ReadyOver), ratio("%.2fx", s.ReadyOverRecorded), float64(s.RegistryBytes)/mega, ratio("%.2fx", s.RegistryOver),
			float64(s.ReceivedBytes)/mega, float64(s.PeerBytes)/mega, s.CPU, ratio("%.2fx", s.CPUOver), float64(s.PeakMemory)/mega, float64(s.Disk)/mega, s.FailedVMs)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, s := range sums {
		if s.Fallback != "" {
			fmt.Fprintf(w, "%v: in truth a full pull: %s\n", s.burstPlan, s.Fallback)
		}
	}
	return nil
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
