package coordinator

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/treeclient"
)

// ring is a Journal that only knows owners.
type ring struct {
	nothing
	self string

	mu      sync.Mutex
	owners  map[string]string // by function
	blind   bool
	changed []Key
}

func (r *ring) Owner(k Key, unreachable []string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.owners[k.Function]
	if o == r.self || r.blind && slices.Contains(unreachable, o) {
		return ""
	}
	return o
}

func (r *ring) Scheduler(owner string) string {
	if owner == second {
		return "scheduler-of-" + owner
	}
	return ""
}

func (r *ring) Changed(k Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed = append(r.changed, k)
}

func (r *ring) set(function, owner string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owners == nil {
		r.owners = map[string]string{}
	}
	r.owners[function] = owner
}

const second = "coordinator:2"

func TestFunctionsOfOtherCoordinators(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		one, two := &ring{self: home}, &ring{self: second}
		for _, r := range []*ring{one, two} {
			r.set(image, second)
			r.set("mine", home)
		}
		a := w.serve(home, Options{Form: tree.Complete, Journal: one})
		b := w.serve(second, Options{Form: tree.Complete, Journal: two})
		both := func(o *treeclient.Options) { o.Coordinators = []string{home, second} }
		vms := []*vm{w.vm(1, both), w.vm(2, both), w.vm(3, both)}
		for _, v := range vms {
			v.join(t, image)
			v.join(t, "mine")
		}
		if a.tree(image) != nil || len(b.tree(image).GetNodes()) != 3 || len(a.tree("mine").GetNodes()) != 3 || b.tree("mine") != nil {
			t.Fatalf("functions are not where they belong")
		}
		before := shape(b.tree(image))
		// The function moves to the first one.
		one.set(image, home)
		two.set(image, home)
		b.Rehome()
		synctest.Wait()
		if b.tree(image) != nil {
			t.Error("the old owner keeps it")
		}
		for _, v := range vms { // upstreams hold until the new owner knows all
			if p, ok := v.Place(image); !ok || len(p.Stripes) != 1 {
				t.Errorf("%s has no place", v.name)
			}
		}
		time.Sleep(DefaultSettle)
		if got := shape(a.tree(image)); len(got) != 3 {
			t.Errorf("at the new owner: %v, want %v", got, before)
		} else {
			for vm, up := range before {
				if got[vm] != up {
					t.Errorf("%s read from %s and reads from %s", vm, up, got[vm])
				}
			}
		}
		two.set("mine", second)
		one.set("mine", second)
		a.Rehome()
		time.Sleep(DefaultSettle)
		if a.tree("mine") != nil || len(b.tree("mine").GetNodes()) != 3 {
			t.Error("the second move")
		}
	})
}

func TestOwnerThatIsDeadIsReplacedByOneThatCannotKnow(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		r := &ring{self: home, blind: true}
		r.set(image, second) // which does not run
		c := w.serve(home, Options{Journal: r})
		v := w.vm(1)
		v.Join(t.Context(), image) // in vain
		time.Sleep(5 * time.Second)
		if got := v.up(image, 0); got != "origin" || c.tree(image) == nil {
			t.Errorf("after 5 s: %s", got)
		}
	})
}

func TestJournalHearsOfEveryChange(t *testing.T) {
	r := &ring{}
	f := newFleet(t, Options{Journal: r})
	a := f.attend("a")
	for i, do := range []func(){
		func() { f.join(a, image, 0) },
		func() { f.leave(a, image) },
	} {
		n := len(r.changed)
		if do(); len(r.changed) == n {
			t.Errorf("step %d was not told", i)
		}
	}
	if f.c.Tree(Key{DefaultTenant, image}) != nil {
		t.Error("a tree without VMs")
	}
}
