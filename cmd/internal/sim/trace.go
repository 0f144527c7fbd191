package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/faasnet/faasnet/cmd/internal/tree"
)

// Trace is requests to one function over time, whoever waits for whom, on VMs
// that come when none is idle and go when they have been idle for long.
type Trace struct {
	Burst             // how a VM starts the function; VMs is how many there can be
	Rates  []RateFrom // of requests, in order of time
	Length float64    // seconds
	Handle float64    // seconds that a VM takes for a request
	Idle   float64    // seconds after which an idle VM is taken away
	Keep   int        // VMs that are not taken away
}

// RateFrom is requests a second from a time on.
type RateFrom struct{ At, RPS float64 }

// Minute is what a part of a trace was like.
type Minute struct {
	At       float64 `json:"at_s"`
	RPS      float64 `json:"rps"`
	Mean     float64 `json:"response_mean_s"` // of requests that came then
	Max      float64 `json:"response_max_s"`
	VMs      int     `json:"vms"` // at its end, as what follows
	Starting int     `json:"starting"`
	Height   int     `json:"height"` // of the tree; a lone root's is 1
}

// Traced is what came of a trace.
type Traced struct {
	Parts     []Minute
	Provision []float64 // seconds from each cold start to READY
	Waiting   int       // requests that found no VM and none to be had
	Registry  int64
}

// tick is how far a trace moves on at a time, and part how much of it one Minute
// is, in seconds.
const (
	tick = 0.02
	part = 5.0
)

// traced is a trace under way. What starts moves on by as much of its bytes as
// the links on their way share out, and what it computes.
type traced struct {
	*Trace
	tree     tree.Tree // nil: none
	vms      []*traceVM
	starting []*traceVM
	idle     []*traceVM // the one used last is last
	queue    []float64  // requests that wait for a VM: when they came
	loads    map[tree.VM]int
	now      float64
	next     int // number of the next VM
	out      Traced
	response map[int][]float64 // by part in which the request came
}

type traceVM struct {
	name    tree.VM
	request float64 // when the one that it has came
	began   float64
	fixed   float64 // seconds until it reads
	done    float64 // of what it reads, a part of 1
	rest    float64 // seconds after all is read
	until   float64 // has its request; idle: since
}

// Run passes the trace.
func (t Trace) Run(seed uint64) (Traced, error) {
	w := &traced{Trace: &t, loads: map[tree.VM]int{}, response: map[int][]float64{}}
	if t.System == Tree {
		var err error
		if w.tree, err = tree.New(t.Form); err != nil {
			return w.out, err
		}
	}
	r := rand.New(rand.NewPCG(seed, 11))
	arrival := r.ExpFloat64() / t.Rates[0].RPS
	for step := 0; w.now < t.Length; step++ {
		w.now = float64(step) * tick
		for arrival <= w.now {
			if err := w.come(arrival); err != nil {
				return w.out, err
			}
			arrival += r.ExpFloat64() / t.rps(arrival)
		}
		if err := w.step(); err != nil {
			return w.out, err
		}
		if n := int(part / tick); step%n == n-1 {
			w.note()
		}
	}
	w.sum()
	return w.out, nil
}

// rps is how many requests come a second then.
func (t Trace) rps(at float64) float64 {
	r := t.Rates[0].RPS
	for _, f := range t.Rates {
		if f.At <= at {
			r = f.RPS
		}
	}
	return r
}

// come gives a request to the VM that was idle last, or to a new one.
func (w *traced) come(at float64) error {
	if n := len(w.idle); n > 0 {
		w.take(w.idle[n-1], at)
		w.idle = w.idle[:n-1]
		return nil
	}
	if len(w.vms) >= w.VMs {
		w.out.Waiting++
		w.queue = append(w.queue, at)
		return nil
	}
	v := &traceVM{name: tree.VM(fmt.Sprint("vm", w.next)), request: at, began: at}
	w.next++
	v.fixed, v.rest = w.around()
	w.vms, w.starting = append(w.vms, v), append(w.starting, v)
	if w.tree == nil {
		return nil
	}
	_, err := w.tree.Insert(v.name)
	return err
}

// around is what a start takes before and after it reads.
func (w *traced) around() (before, after float64) {
	s := w.Start
	if w.System == FullPull {
		return 0, max(0, s.Unpack-float64(w.Image.Bytes)*8/float64(w.Rate)) + s.Create.Wall + s.Run.Wall
	}
	before = s.Pull.Wall + float64(w.Image.Section)*8/float64(w.Rate)
	if w.Recorded {
		return before, 0 // what it reads is fetched from then on; see move
	}
	return before + s.Create.Wall, 0
}

func (w *traced) take(v *traceVM, request float64) {
	v.request, v.until = request, max(w.now, request)+w.Handle
	part := int(request / part)
	w.response[part] = append(w.response[part], v.until-request)
}

// step moves all on by a tick.
func (w *traced) step() error {
	w.share()
	w.starting = slices.DeleteFunc(w.starting, func(v *traceVM) bool {
		if !w.move(v) {
			return false
		}
		w.out.Provision = append(w.out.Provision, w.now-v.began)
		w.take(v, v.request)
		return true
	})
	for _, v := range w.vms {
		if v.until > 0 && v.until <= w.now && v.until > w.now-tick {
			if len(w.queue) > 0 {
				w.take(v, w.queue[0])
				w.queue = w.queue[1:]
				continue
			}
			w.idle = append(w.idle, v)
		}
	}
	for len(w.idle) > 0 && len(w.vms) > w.Keep && w.idle[0].until < w.now-w.Idle {
		v := w.idle[0]
		w.idle = w.idle[1:]
		w.vms = slices.DeleteFunc(w.vms, func(o *traceVM) bool { return o == v })
		if w.tree != nil {
			if _, err := w.tree.Delete(v.name); err != nil {
				return err
			}
		}
	}
	return nil
}

// note keeps what it is like now.
func (w *traced) note() {
	m := Minute{At: w.now, RPS: w.rps(w.now), VMs: len(w.vms), Starting: len(w.starting)}
	if w.tree != nil {
		for s := range w.tree.Stripes() {
			for vm := range w.tree.All() {
				m.Height = max(m.Height, 1+len(tree.Ancestors(w.tree, vm, s)))
			}
		}
	}
	w.out.Parts = append(w.out.Parts, m)
}

// sum adds the responses to the parts in which their requests came.
func (w *traced) sum() {
	for i := range w.out.Parts {
		m := &w.out.Parts[i]
		for _, r := range w.response[i] {
			m.Mean += r / float64(len(w.response[i]))
			m.Max = max(m.Max, r)
		}
	}
}
