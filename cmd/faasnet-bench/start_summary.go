package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// startSummary is what a system's starts come to. Speedup and ByteRatio are
// medians, over repetitions, of overlayfs's time divided by this system's and
// of this system's bytes divided by overlayfs's.
type startSummary struct {
	System        string  `json:"system"`
	Recorded      bool    `json:"recorded,omitempty"`
	VMs           int     `json:"vms"`
	Rate          string  `json:"rate"`
	Image         string  `json:"image"`
	ReadyMedian   float64 `json:"ready_median_s"`
	ReadyP95      float64 `json:"ready_p95_s"`
	ReadyMax      float64 `json:"ready_max_s"`
	RegistryBytes int64   `json:"registry_bytes"`
	PeerBytes     int64   `json:"peer_bytes"`
	CPU           float64 `json:"cpu_s"`
	Speedup       float64 `json:"speedup_over_overlayfs"`
	ByteRatio     float64 `json:"bytes_over_overlayfs"`
}

func (r startRow) called() string { return called(r.System, r.Recorded) }

func sumStarts(rows []startRow) (out []startSummary) {
	systems, groups := by(rows, startRow.called)
	rep := func(r startRow) int { return r.Rep }
	ready := func(r startRow) float64 { return r.Ready }
	bytes := func(r startRow) float64 { return float64(r.RegistryBytes) }
	for _, s := range systems {
		g := groups[s]
		times := column(g, ready)
		out = append(out, startSummary{
			System: g[0].System, Recorded: g[0].Recorded, VMs: g[0].VMs, Rate: g[0].Rate, Image: g[0].Image,
			ReadyMedian: median(times), ReadyP95: percentile(times, 0.95), ReadyMax: percentile(times, 1),
			RegistryBytes: median(column(g, func(r startRow) int64 { return r.RegistryBytes })),
			PeerBytes:     median(column(g, func(r startRow) int64 { return r.PeerBytes })),
			CPU:           median(column(g, func(r startRow) float64 { return r.CPU })),
			Speedup:       median(ratios(rows, rep, startRow.called, "overlayfs", s, ready)),
			ByteRatio:     median(ratios(rows, rep, startRow.called, s, "overlayfs", bytes)),
		})
	}
	return out
}

func printStarts(w io.Writer, sums []startSummary) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "system\tVMs\trate\timage\tREADY s\tp95\tmax\tMB fetched\tCPU s\ttimes faster\tof the bytes\t")
	for _, s := range sums {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%.2f\t%.2f\t%.2f\t%.1f\t%.2f\t%s\t%s\t\n", called(s.System, s.Recorded), s.VMs, s.Rate, s.Image,
			s.ReadyMedian, s.ReadyP95, s.ReadyMax, float64(s.RegistryBytes)/1e6, s.CPU, ratio("%.1fx", s.Speedup), ratio("%.1f %%", s.ByteRatio*100))
	}
	return t.Flush()
}

// ratio prints one that is known.
func ratio(format string, v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf(format, v)
}
