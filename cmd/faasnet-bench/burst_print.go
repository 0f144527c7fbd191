package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

const mega = 1e6

// printBurst prints a line for each VM of a burst and one for the whole.
func printBurst(w io.Writer, r burstRow) error {
	fmt.Fprintf(w, "\n%v, image %s, %s, repetition %d\n", r.burstPlan, r.Image, r.Rate, r.Rep+1)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "VM\tpulled s\tcreated s\tREADY s\tregistry MB\tpeers MB\tcache MB\tdepth\tCPU s\t")
	for _, vm := range r.PerVM {
		note := ""
		switch {
		case vm.VM == r.Struck:
			note = r.Kill.String()
		case vm.Error != "":
			note = "failed"
		}
		fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%.2f\t%.1f\t%.1f\t%.1f\t%s\t%.2f\t %s\n", vm.VM, vm.Pull, vm.Create, vm.Ready, float64(vm.RegistryBytes)/mega,
			float64(vm.PeerBytes)/mega, float64(vm.CacheBytes)/mega, strings.Trim(fmt.Sprint(vm.Depths), "[]"), vm.CPU, note)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, vm := range r.PerVM {
		if vm.Error != "" && vm.VM != r.Struck {
			fmt.Fprintf(w, "%s: %s\n", vm.VM, strings.TrimSpace(vm.Error))
		}
	}
	if r.Fallback != "" {
		fmt.Fprintf(w, "in truth a full pull: %s\n", r.Fallback)
	}
	_, err := fmt.Fprintf(w, "READY %.2f s median, %.2f s p95, %.2f s max; registry sent %.1f MB, peers %.1f MB; %d re-parented, %d VMs and %d reads failed; %.1f CPU s\n",
		r.ReadyMedian, r.ReadyP95, r.ReadyMax, float64(r.RegistryBytes)/mega, float64(r.PeerBytes)/mega, r.Reparented, r.FailedVMs, r.FailedReads, r.CPU)
	return err
}

// printBursts prints one line for each plan.
func printBursts(w io.Writer, sums []burstSummary) error {
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "system\tform\tfault\tVMs\treps\tREADY s\tp95\tmax\tadded s\tof 1 VM\tof bound\tregistry MB\tof 1 VM\tpeers MB\tre-parented\tfailed VMs\treads\tCPU s\t")
	for _, s := range sums {
		fault := "-"
		if s.Kill != (kill{}) {
			fault = s.Kill.String()
		}
		added := "-"
		if s.Added != nil {
			added = fmt.Sprintf("%+.2f", *s.Added)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%.2f\t%.2f\t%.2f\t%s\t%s\t%s\t%.1f\t%s\t%.1f\t%d\t%d\t%d\t%.1f\t\n", s.called(), cmp.Or(s.Form, "-"), fault, s.VMs, s.Reps,
			s.ReadyMedian, s.ReadyP95, s.ReadyMax, added, ratio("%.2fx", s.OverOne), ratio("%.2fx", s.OverBound), float64(s.RegistryBytes)/mega, ratio("%.2fx", s.EgressOverOne),
			float64(s.PeerBytes)/mega, s.Reparented, s.FailedVMs, s.FailedReads, s.CPU)
	}
	return t.Flush()
}
