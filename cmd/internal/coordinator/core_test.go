package coordinator

import (
	"crypto/ed25519"
	"fmt"
	"io"
	"maps"
	"math/bits"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

func TestMain(m *testing.M) {
	if role := os.Getenv("FAASNET_TEST_VM"); role != "" {
		helperVM(role, os.Getenv("FAASNET_TEST_ADDRESS"))
		return
	}
	logrus.SetOutput(io.Discard)
	if os.Getenv(aloneEnv) != "" {
		serveAlone()
		return
	}
	goleak.VerifyTestMain(m)
}

func testKey() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)) }

// fleet is VMs that talk to a coordinator without streams.
type fleet struct {
	t   testing.TB
	c   *Coordinator
	vms map[string]*machine
}

// machine is one VM and what it has been told.
type machine struct {
	*session
	name     string
	ended    error // why its stream has ended
	places   map[string]*treepb.Assignment
	refusals map[string]*treepb.Refusal
}

func newFleet(t testing.TB, o Options) *fleet {
	t.Helper()
	o.Key = testKey()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return &fleet{t, c, map[string]*machine{}}
}

// attend opens the stream of a VM, anew if it has one.
func (f *fleet) attend(name string) *machine {
	f.t.Helper()
	m := f.vms[name]
	if m == nil {
		m = &machine{name: name, places: map[string]*treepb.Assignment{}, refusals: map[string]*treepb.Refusal{}}
		f.vms[name] = m
	}
	m.ended = nil
	s, err := f.c.greet(&treepb.Hello{Protocol: 1, Vm: name, Address: "10.0.0.1:7000"}, "", func(err error) { m.ended = err })
	if err != nil {
		f.t.Fatal(err)
	}
	m.session = s
	return m
}

func (f *fleet) join(m *machine, function string, blocks uint64) {
	j := &treepb.Join{Function: function, Blocks: blocks}
	if p := m.places[function]; p != nil {
		j.Epoch = p.Epoch
		for _, s := range p.Stripes {
			j.Upstreams = append(j.Upstreams, s.Upstream.GetVm())
		}
	}
	f.hear(m, &treepb.FromVM{Message: &treepb.FromVM_Join{Join: j}})
}

func (f *fleet) leave(m *machine, function string) {
	f.hear(m, &treepb.FromVM{Message: &treepb.FromVM_Leave{Leave: &treepb.Leave{Function: function}}})
	delete(m.places, function)
}

func (f *fleet) beat(m *machine) {
	f.c.hear(f.t.Context(), m.session, &treepb.FromVM{Message: &treepb.FromVM_Heartbeat{Heartbeat: &treepb.Heartbeat{}}})
}

func (f *fleet) report(m *machine, function, vm string, fault treepb.Report_Fault) {
	f.hear(m, &treepb.FromVM{Message: &treepb.FromVM_Report{Report: &treepb.Report{Function: function, Vm: vm, Fault: fault}}})
}

func (f *fleet) hear(m *machine, msg *treepb.FromVM) {
	f.c.hear(f.t.Context(), m.session, msg)
	f.deliver()
}

// deliver gives every VM the news that wait for it, also those that could wait.
func (f *fleet) deliver() {
	f.c.mu.Lock()
	f.c.queue.release(time.Now().Add(holdTime))
	f.c.mu.Unlock()
	for _, m := range f.vms {
		if m.session == nil {
			continue
		}
		select {
		case <-m.wake:
		default:
			continue
		}
		news, _ := f.c.news(m.session)
		for _, msg := range news {
			switch x := msg.Message.(type) {
			case *treepb.ToVM_Assignment:
				if old := m.places[x.Assignment.Function]; old != nil && old.Epoch > x.Assignment.Epoch {
					f.t.Fatalf("%s: the epoch of %s went from %d to %d", m.name, x.Assignment.Function, old.Epoch, x.Assignment.Epoch)
				}
				m.places[x.Assignment.Function] = x.Assignment
				delete(m.refusals, x.Assignment.Function)
			case *treepb.ToVM_Refusal:
				delete(m.places, x.Refusal.Function)
				m.refusals[x.Refusal.Function] = x.Refusal
			}
		}
	}
}

// upstream says whom a VM reads from as far as it knows.
func (m *machine) upstream(function string) string {
	p := m.places[function]
	if p == nil {
		return "none"
	}
	if up := p.Stripes[0].Upstream; up != nil {
		return up.Vm
	}
	return "origin"
}

// check holds one function to all invariants: the tree has exactly the VMs
// of want, it is a tree, and every VM has been told its place as it is.
func (f *fleet) check(function string, want map[string]bool) {
	f.t.Helper()
	g := f.c.groves[Key{DefaultTenant, function}]
	if g == nil {
		if len(want) > 0 {
			f.t.Fatalf("%s: no tree, want %d VMs", function, len(want))
		}
		return
	}
	have := map[string]bool{}
	for vm := range g.tree.All() {
		if have[string(vm)] {
			f.t.Fatalf("%s is twice in %s", vm, function)
		}
		have[string(vm)] = true
	}
	if !maps.Equal(have, want) {
		f.t.Fatalf("%s has the VMs %v, want %v", function, slices.Sorted(maps.Keys(have)), slices.Sorted(maps.Keys(want)))
	}
	if err := sound(g.tree, f.c.opts.Form); err != nil {
		f.t.Fatalf("%s: %v", function, err)
	}
	for vm := range have {
		told := f.vms[vm].places[function]
		if told == nil || !knows(told, g, tree.VM(vm)) {
			f.t.Fatalf("%s of %s: told %v, is %v", vm, function, told, g.seats[tree.VM(vm)].assignment())
		}
	}
}

// knows reports whether a is the place of vm as it is.
func knows(a *treepb.Assignment, g *grove, vm tree.VM) bool {
	if len(a.Stripes) != g.tree.Stripes() {
		return false
	}
	for i, s := range a.Stripes {
		up := g.tree.Upstream(vm, i)
		if s.Upstream.GetVm() != string(up) {
			return false
		}
		for _, p := range s.Ancestors {
			if up = g.tree.Upstream(up, i); up == tree.Origin || p.Vm != string(up) {
				return false
			}
		}
		if up != tree.Origin && g.tree.Upstream(up, i) != tree.Origin {
			return false
		}
		if !slices.EqualFunc(s.Downstream, g.tree.Downstream(vm, i), func(p *treepb.Peer, d tree.VM) bool { return p.Vm == string(d) }) {
			return false
		}
	}
	return true
}

// sound checks what every form promises, and how deep it may be.
func sound(t tree.Tree, form tree.Form) error {
	children := map[tree.VM]int{}
	for s := range t.Stripes() {
		roots, depth := 0, 0
		for vm := range t.All() {
			up := t.Upstream(vm, s)
			if up == tree.Origin {
				roots++
			} else if !t.Has(up) || !slices.Contains(t.Downstream(up, s), vm) {
				return fmt.Errorf("stripe %d: %s reads from %s, which does not serve it", s, vm, up)
			}
			children[up]++
			steps := 0
			for p := up; p != tree.Origin; p = t.Upstream(p, s) {
				if steps++; p == vm || steps > t.Len() {
					return fmt.Errorf("stripe %d: a ring at %s", s, vm)
				}
			}
			depth = max(depth, steps)
		}
		limit := bits.Len(uint(t.Len())) - 1 // floor(log2 n)
		switch form {
		case tree.Striped:
			limit++
		case tree.Rotate:
			limit += limit/2 + 1 // AVL: 1.44 log2 n
		}
		if t.Len() > 1 && roots != 1 && (form != tree.Striped || t.Len() > 2) || depth > limit {
			return fmt.Errorf("stripe %d of %d VMs: %d roots, depth %d", s, t.Len(), roots, depth)
		}
	}
	for vm, n := range children {
		if vm != tree.Origin && n > 2 {
			return fmt.Errorf("%s serves %d", vm, n)
		}
	}
	return nil
}
