package sim

import (
	"fmt"
	"maps"
	"os"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/peer"
)

// storm is a world in which a plan happens.
type storm struct {
	*world
	p    *plan
	gone map[int]bool // for good
	hurt map[int]bool // its link was cut: its own reads may have failed
	bad  map[int]bool // it failed or lied: others may have reported it
}

// run lives through a plan and judges what is left.
func (p *plan) run(t *testing.T, broken hooks) (r verdict) {
	t.Helper()
	f := p.fleet
	f.hooks = broken
	f.hooks.gives = func(v *vm, b peer.Blocks) peer.Blocks {
		if broken.gives != nil {
			b = broken.gives(v, b)
		}
		if p.liars[v.number] {
			b = lies{b}
		}
		return b
	}
	inWorld(t, f, func(w *world) {
		s := &storm{world: w, p: p, gone: map[int]bool{}, hurt: map[int]bool{}, bad: maps.Clone(p.liars)}
		for range p.vms {
			w.host()
		}
		for _, e := range p.events {
			time.Sleep(e.at - w.now())
			w.logf("%v", e)
			s.happen(e)
		}
		w.work.Wait() // what ends by itself
		r = s.judge()
	})
	return r
}

// happen makes an event happen.
func (s *storm) happen(e event) {
	if e.what == away {
		s.work.Go(func() { s.tree.restart(e.last) })
		return
	}
	v := s.vms[e.vm]
	s.bad[e.vm] = s.bad[e.vm] || e.what != join
	s.gone[e.vm] = e.last == 0 && e.what.stays()
	switch e.what {
	case join:
		s.start(v)
	case kill:
		v.kill()
	case restart:
		v.kill()
		s.after(e, func() {
			v.host.Revive()
			s.start(v)
		})
	case leave:
		v.stop()
		v.host.Kill()
	case freeze:
		v.host.Freeze(true)
		s.after(e, func() { v.host.Freeze(false) })
	case unlink:
		s.hurt[e.vm] = true
		v.host.Cut(true)
		s.after(e, func() { v.host.Cut(false) })
	case slow:
		v.host.SetRate(s.o.rate / 20)
		s.after(e, func() { v.host.SetRate(s.o.rate) })
	case evict:
		if err := v.up.store.Retain(func(digest.Digest) bool { return false }); err != nil {
			s.t.Errorf("%s: %v", v.name, err)
		}
	}
}

// after does f when the event has lasted.
func (s *storm) after(e event, f func()) {
	if e.last == 0 {
		return
	}
	s.work.Go(func() {
		time.Sleep(e.last)
		f()
	})
}

// start boots a VM and starts the function on it.
func (s *storm) start(v *vm) {
	v.boot()
	v.run(s.o.images[0], s.p.work[v.number], 2)
}

// tellAgain logs which blocks the registry was asked for again, by whom.
func (s *storm) tellAgain() {
	if os.Getenv(verbose) == "" {
		return
	}
	before := map[block.Sum]asked{}
	for _, a := range s.asked.since(0) {
		if b, ok := before[a.ref.Sum]; ok {
			s.t.Logf("%s asks for %v again at %v, its upstreams are now %v; before it %s at %v",
				a.vm, a.ref, a.at, upstreams(s.named(a.vm).place(s.o.images[0].function)), b.vm, b.at)
		}
		before[a.ref.Sum] = a
	}
}

// verdict is what is wrong after a storm.
type verdict struct {
	errs []error
	// What it was like.
	vms, live int
	took      time.Duration // until all live VMs were complete
	egress    float64       // of the registry until then, in images
	most      int           // times that the registry was asked for one block
}

func (r *verdict) wrong(format string, a ...any) { r.errs = append(r.errs, fmt.Errorf(format, a...)) }

func (r *verdict) String() string {
	return fmt.Sprintf("%d VMs, %d live at the end, complete after %.1f s, %.2f images from the registry, at most %d times a block",
		r.vms, r.live, r.took.Seconds(), r.egress, r.most)
}
