package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Time that a fleet gets after a storm.
const (
	toComplete = 90 * time.Second // the fill pauses 30 s after a failure
	toSettle   = 40 * time.Second // who was reported by two is kept out for 30 s, or longer
)

// judge says what is wrong.
func (s *storm) judge() (r verdict) {
	var live []*vm
	for i, v := range s.vms {
		if !s.gone[i] {
			live = append(live, v)
		}
	}
	r.vms, r.live = len(s.vms), len(live)
	s.completeAndRight(&r, live)
	r.took = s.now()
	r.egress = float64(s.egress()) / float64(s.o.images[0].bytes())
	r.most, _ = most(s.asked.since(0))
	if limit := s.p.limit(); r.most > limit {
		r.wrong("the registry was asked %d times for one block, want %d at most", r.most, limit)
	}
	s.tellAgain()
	s.probe(&r, live, s.settled(&r, live))
	return r
}

// completeAndRight: every live VM has the whole image, and not a byte of it is
// wrong. Who was well had no read that failed.
func (s *storm) completeAndRight(r *verdict, live []*vm) {
	for _, v := range live {
		if !within(toComplete-s.now(), v.lives().complete) {
			r.wrong("%s is not complete after %v", v.name, s.now())
			continue
		}
		if err := v.lives().right(); err != nil {
			r.errs = append(r.errs, err)
		}
	}
	for _, v := range live {
		for _, err := range v.lives().failed() {
			if !s.hurt[v.number] || errors.Is(err, errWrong) { // who is cut off may fail, but is not deceived
				r.errs = append(r.errs, err)
			}
		}
	}
}

// settled: the coordinator's tree has the live VMs and nobody else, and every VM
// has been told the place that it has there. It returns how many VMs that failed
// or lied are still kept out since others have reported them.
func (s *storm) settled(r *verdict, live []*vm) (out int) {
	var last error
	if within(toSettle, func() bool { last = s.disagreement(live, 0); return last == nil }) {
		return 0
	}
	for out = 1; out <= len(s.bad); out++ {
		if s.disagreement(live, out) == nil {
			return out
		}
	}
	r.wrong("not settled after %v: %w", toSettle, last)
	return 0
}

// disagreement says in what the tree is not what it should be when out VMs may be
// kept out.
func (s *storm) disagreement(live []*vm, out int) error {
	function := s.o.images[0].function
	there := map[string]bool{}
	for _, n := range s.tree.of(function).GetNodes() {
		v := s.named(n.Peer.Vm)
		if !slices.Contains(live, v) {
			return fmt.Errorf("%s is in the tree", v.name)
		}
		there[v.name] = true
		if told := upstreams(v.place(function)); !slices.Equal(told, n.Upstreams) {
			return fmt.Errorf("%s was told to read from %v, in the tree it reads from %v", v.name, told, n.Upstreams)
		}
	}
	for _, v := range live {
		if !there[v.name] && s.bad[v.number] {
			out--
		}
		if !there[v.name] && (!s.bad[v.number] || out < 0) {
			return fmt.Errorf("%s is not in the tree", v.name)
		}
	}
	return nil
}

// probe: what nobody has read yet of the image comes to all live VMs, and, unless
// some of them lie, from the registry once: each VM acts on its place, and no VM
// asks somebody who is gone. Those kept out of the tree read from the registry.
func (s *storm) probe(r *verdict, live []*vm, out int) {
	m, then := s.o.images[0], s.now()
	last := len(m.layers) - 1
	for i, err := range all(live, func(v *vm) error { return v.lives().more(m.part(last, smallBlock, 1)) }) {
		if err != nil && (!s.hurt[live[i].number] || errors.Is(err, errWrong)) {
			r.wrong("afterwards: %w", err)
		}
	}
	times, again := most(s.asked.since(then))
	if spare := 1 + len(s.hurt) + out*m.layers[last].Table.Len(); len(s.p.liars) == 0 && again > spare {
		r.wrong("afterwards the registry was asked %d times for one of %d blocks, %d times again in all, want %d at most",
			times, m.layers[last].Table.Len(), again, spare)
	}
}
