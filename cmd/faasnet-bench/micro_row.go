package main

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// The systems whose files are measured.
const (
	native = "overlayfs"
	ours   = "faasnet"
	rival  = "stargz-nobg" // its background fetch would be measured with it
)

var microSystems = []string{native, ours, rival}

// microPlan is what is measured: rows of one plan are repetitions.
type microPlan struct {
	Name   string `json:"name"`
	System string `json:"system"`          // or the part: a level, a form of trees
	State  string `json:"state,omitempty"` // of caches, or what is done
	Size   int    `json:"size,omitempty"`  // layers, functions or nodes
}

func (p microPlan) String() string {
	s := p.Name + " " + p.System
	if p.State != "" {
		s += " " + p.State
	}
	if p.Size != 0 {
		s += fmt.Sprintf(" %d", p.Size)
	}
	return s
}

// microRow is one figure. CPU seconds are those of the VM, our daemon and what it
// works for, but without the kernel's own threads.
type microRow struct {
	microPlan
	Rep   int     `json:"rep"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	CPU   float64 `json:"cpu_s,omitempty"`
	Bytes int64   `json:"bytes,omitempty"` // that were read
	Items int64   `json:"items,omitempty"` // files, programs or reads
}

// microSummary has medians over repetitions, of ratios those of pairs within one
// repetition. States of ours that others do not have are compared with their
// cold and warm.
type microSummary struct {
	microPlan
	Reps       int     `json:"reps"`
	Median     float64 `json:"median"`
	Min        float64 `json:"min"`
	Max        float64 `json:"max"`
	Unit       string  `json:"unit"`
	CPU        float64 `json:"cpu_s,omitempty"`
	OverNative float64 `json:"over_native,omitempty"` // this over overlayfs
	RivalOver  float64 `json:"stargz_over,omitempty"` // stargz over this
	CPUNative  float64 `json:"cpu_over_native,omitempty"`
	Target     string  `json:"target,omitempty"`
	Met        bool    `json:"met,omitempty"`
}

func sumMicros(rows []microRow) (out []microSummary) {
	plans, groups := by(rows, func(r microRow) microPlan { return r.microPlan })
	value := func(r microRow) float64 { return r.Value }
	cpu := func(r microRow) float64 { return r.CPU }
	for _, p := range plans {
		g := groups[p]
		values := column(g, value)
		s := microSummary{
			microPlan: p, Reps: len(g), Median: median(values), Min: percentile(values, 0), Max: percentile(values, 1), Unit: g[0].Unit, CPU: median(column(g, cpu)),
		}
		if g[0].Unit == seconds {
			s.OverNative = median(pairs(groups, p, asSystem(p, native), value))
			s.RivalOver = median(pairs(groups, asSystem(p, rival), p, value))
			s.CPUNative = median(pairs(groups, p, asSystem(p, native), cpu))
		}
		s.judge()
		out = append(out, s)
	}
	return out
}

const seconds = "s"

// asSystem is the plan of another system that p is compared with.
func asSystem(p microPlan, system string) microPlan {
	if p.System == system {
		return microPlan{}
	}
	state := map[string]string{"lazy-cold": "cold", "lazy-warm": "warm", "blocks": "cold", "registry": "cold"}
	p.System = system
	if system != ours && (system == native || p.State != "registry") {
		p.State = cmp.Or(state[p.State], p.State)
	}
	return p
}

// pairs divides figures of plan a by those of plan b in the same repetition.
func pairs(groups map[microPlan][]microRow, a, b microPlan, of func(microRow) float64) (out []float64) {
	for _, x := range groups[a] {
		for _, y := range groups[b] {
			if x.Rep == y.Rep && of(y) > 0 && a != b {
				out = append(out, of(x)/of(y))
			}
		}
	}
	return out
}

// judge compares a figure of ours with its target.
func (s *microSummary) judge() {
	if s.System != ours {
		return
	}
	const mib100 = 100
	most := func(name, state string, value, target float64) {
		if s.Name == name && s.State == state && value > 0 {
			s.Target, s.Met = strings.TrimPrefix(s.Target+fmt.Sprintf(", <= %g", target), ", "), value <= target
		}
	}
	most("walk", "cold", s.OverNative, 1.1)
	most("walk", "warm", s.OverNative, 1.1)
	most("seq", "warm", s.OverNative, 1.1)
	most("seq", "cold", s.OverNative, 1.5)
	if s.Size == targetFunctions*targetLayers {
		most("rss", "lazy", s.Median, mib100)
		most("rss", "local", s.Median, mib100)
	}
	if s.Name == "walk" && (s.State == "cold" || s.State == "warm") && s.RivalOver > 0 {
		const least = 5
		met := s.RivalOver >= least
		s.Met = met && (s.Target == "" || s.Met)
		s.Target = strings.TrimPrefix(fmt.Sprintf("%s, stargz >= %dx", s.Target, least), ", ")
	}
}

func printMicros(w io.Writer, sums []microSummary) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "name\tsystem\tstate\tsize\treps\tmedian\tmin\tmax\tunit\tCPU s\tover native\tCPU over native\tstargz over it\ttarget\t")
	for _, s := range sums {
		target := s.Target
		if target != "" {
			target += map[bool]string{true: " (met)", false: " (missed)"}[s.Met]
		}
		size := "-"
		if s.Size != 0 {
			size = strconv.Itoa(s.Size)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%.4g\t%.4g\t%.4g\t%s\t%s\t%s\t%s\t%s\t%s\t\n", s.Name, s.System, cmp.Or(s.State, "-"), size, s.Reps, s.Median, s.Min, s.Max, s.Unit,
			ratio("%.3f", s.CPU), ratio("%.2f", s.OverNative), ratio("%.2f", s.CPUNative), ratio("%.2f", s.RivalOver), target)
	}
	return t.Flush()
}
