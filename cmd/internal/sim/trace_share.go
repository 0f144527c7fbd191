package sim

import "github.com/faasnet/faasnet/cmd/internal/tree"

// originName is the registry among those who are read from.
const originName tree.VM = ""

// sources are those that a VM reads from, a stripe each.
func (w *traced) sources(v *traceVM) []tree.VM {
	if w.tree == nil {
		return []tree.VM{originName}
	}
	out := make([]tree.VM, w.tree.Stripes())
	for s := range out {
		out[s] = w.tree.Upstream(v.name, s)
	}
	return out
}

// share counts who reads from whom.
func (w *traced) share() {
	clear(w.loads)
	for _, v := range w.starting {
		if v.reads(w.now) {
			for _, s := range w.sources(v) {
				w.loads[s]++
			}
		}
	}
}

func (v *traceVM) reads(now float64) bool { return now >= v.began+v.fixed && v.done < 1 }

// move moves a start on by a tick and reports whether it is READY. It gets ahead
// as fast as it computes and as its sources' links, shared by all who read from
// them, give it bytes, one after the other. A source that has not got so far itself
// gets for it what it wants meanwhile.
func (w *traced) move(v *traceVM) bool {
	if !v.reads(w.now) {
		return v.done >= 1 && w.now >= v.until
	}
	bytes, whole := float64(w.Image.Blocks)*float64(w.Image.Block), w.own()
	if w.System == FullPull {
		bytes, whole = float64(w.Image.Bytes), 0
	}
	if w.Recorded && w.System != FullPull {
		whole = 0 // it computes beside, until earliest
	}
	sources := w.sources(v)
	var registry int
	for _, s := range sources {
		rate := float64(w.Rate)
		if s == originName {
			registry++
			rate = min(rate, float64(w.Registry)/float64(w.loads[s]))
		} else {
			rate /= float64(max(1, w.loads[s]))
		}
		whole += bytes / float64(len(sources)) * 8 / rate
	}
	step := min(tick/whole, 1-v.done)
	v.done += step
	w.out.Registry += int64(step * bytes * float64(registry) / float64(len(sources)))
	if v.done >= 1-1e-9 {
		v.done, v.until = 1, w.now+v.rest
		if w.Recorded && w.System != FullPull {
			v.until = max(w.now, v.began+v.fixed+w.Start.Create.Wall+w.own())
		}
		return v.until <= w.now
	}
	return false
}

// own is what a start takes of its own time while it reads: what it and the daemon
// compute, and a round trip for each block.
func (w *traced) own() float64 {
	n := float64(w.Image.Blocks)
	return w.Start.Run.Wall + w.Start.Serve + n*(w.Costs.Decode*BlockSize+2*latency.Seconds())
}
