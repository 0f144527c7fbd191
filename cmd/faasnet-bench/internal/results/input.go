package results

import (
	"fmt"
	"strings"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/plot"
)

// Input is all that was measured.
type Input struct {
	Files  []File
	Bursts []Bursts
	Plots  []Plot
}

// Bursts are those of one image over one rate: what the files of burst and
// compare come to together.
type Bursts struct {
	Image, Rate, RegistryRate string
	Full                      bool  // every byte is read
	Faults                    bool  // VMs were struck
	Rows                      []Row // a summary of each system and number of VMs
}

// Plot is a drawing of what a command measured.
type Plot struct {
	Command string // "figure 14"
	Name    string // of the file, without .svg
	Figure  plot.Figure
	SVG     []byte // instead of Figure, where it was drawn before
}

// find is the summary of a system, by its name in tables, with so many VMs; of
// ours the one with two stripes, where there are more.
func (b Bursts) find(system string, vms int) (r Row, ok bool) {
	for _, r := range b.Rows {
		if r.name() == system && r.Int("vms") == vms && r.Int("stripes") != 1 {
			return r, true
		}
	}
	return r, false
}

// sizes are the numbers of VMs, in the order in which they come.
func (b Bursts) sizes() (all []int) {
	seen := map[int]bool{}
	for _, r := range b.Rows {
		if n := r.Int("vms"); !seen[n] {
			seen[n] = true
			all = append(all, n)
		}
	}
	return all
}

// plain are the groups in which a function starts and nothing is broken.
func (in Input) plain() (some []Bursts) {
	for _, b := range in.Bursts {
		if !b.Full && !b.Faults {
			some = append(some, b)
		}
	}
	return some
}

// summary has all rows that a command measured.
func (in Input) summary(command string) (rows []Row) {
	for _, f := range of(in.Files, command) {
		rows = append(rows, f.Summary...)
	}
	return rows
}

// fallbacks says which lazy systems have pulled whole images in truth.
func (b Bursts) fallbacks() string {
	var text strings.Builder
	for _, r := range b.Rows {
		if why := r.Str("fallback"); why != "" {
			fmt.Fprintf(&text, "\n%s, %s: in truth a full pull, since %s.\n", r.name(), vms(r.Int("vms")), why)
		}
	}
	return text.String()
}
