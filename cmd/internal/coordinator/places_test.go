package coordinator

import (
	"strings"
	"testing"

	"github.com/faasnet/faasnet/treeclient/treepb"
)

func TestBadJoins(t *testing.T) {
	f := newFleet(t, Options{})
	m := f.attend("a")
	for what, j := range map[string]*treepb.Join{
		"no name":             {},
		"a name of 257 bytes": {Function: strings.Repeat("f", maxName+1)},
	} {
		f.hear(m, &treepb.FromVM{Message: &treepb.FromVM_Join{Join: j}})
		if r := m.refusals[j.Function]; r == nil || r.Again != treepb.Refusal_AGAIN_NEVER {
			t.Errorf("%s: %v", what, r)
		}
	}
	f.leave(m, "never joined")
	f.hear(m, &treepb.FromVM{})
	f.hear(m, &treepb.FromVM{Message: &treepb.FromVM_Hello{Hello: &treepb.Hello{}}})
	if len(f.c.groves) != 0 || len(m.seats) != 0 {
		t.Errorf("%d trees, %d seats", len(f.c.groves), len(m.seats))
	}
	f.join(m, strings.Repeat("f", maxName), 0)
	if len(m.places) != 1 {
		t.Error("the longest name is refused")
	}
}

func TestVMThatDoesNotReadCostsLittle(t *testing.T) {
	f := newFleet(t, Options{})
	deaf := f.attend("deaf")
	f.join(deaf, image, 0)
	f.vms = map[string]*machine{} // nobody takes its news
	for range 1000 {
		m := f.attend("other")
		f.join(m, image, 0)
		f.leave(m, image)
	}
	if n := len(deaf.news); n != 1 {
		t.Errorf("%d messages wait", n)
	}
}
