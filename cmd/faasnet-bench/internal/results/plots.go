package results

import (
	"fmt"
	"slices"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/plot"
)

// plots draws READY, the registry's bytes and CPU seconds of bursts by the
// number of VMs.
func (b Bursts) plots() (all []Plot) {
	if b.Full || b.Faults || len(b.sizes()) < 2 {
		return nil
	}
	name := fmt.Sprintf("burst-%s-%s", b.Image, b.Rate)
	note := fmt.Sprintf("image %s, links of %s%s", b.Image, rate(b.Rate), registry(b))
	for _, d := range []struct {
		suffix, title, unit, key string
		divide                   float64
		log                      bool
	}{
		{"ready", "Time to READY of VMs that start at once", "seconds, median of the VMs", "ready_median_s", 1, true},
		{"registry", "Bytes from the registry", "MB", "registry_bytes", mega, true},
		{"cpu", "CPU seconds of all VMs", "seconds", "cpu_s", 1, false},
	} {
		f := plot.Figure{Title: d.title, Note: note, X: plot.Axis{Label: "VMs", Log: true}, Y: plot.Axis{Label: d.unit, Log: d.log}}
		index := map[string]int{}
		for _, r := range b.Rows {
			system := r.name()
			if r.Int("stripes") == 1 {
				system += ": one tree"
			}
			if r.Num(d.key) <= 0 {
				continue
			}
			if _, known := index[system]; !known {
				index[system] = len(f.Series)
				f.Series = append(f.Series, plot.Series{Name: system})
			}
			s := &f.Series[index[system]]
			s.Points = append(s.Points, plot.At(r.Num("vms"), r.Num(d.key)/d.divide))
		}
		ticks := b.sizes()
		slices.Sort(ticks)
		for _, n := range ticks {
			f.X.Ticks = append(f.X.Ticks, float64(n))
		}
		all = append(all, Plot{Name: name + "-" + d.suffix, Figure: f})
	}
	return all
}
