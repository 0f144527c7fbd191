package sim

import (
	"slices"
	"testing"

	"github.com/faasnet/faasnet/cmd/internal/tree"
)

// A burst of requests takes longer for its cold starts, and then as long as
// before; VMs that are idle for long go, and with them the height of the tree.
func TestTraceComesAndGoes(t *testing.T) {
	tr := Trace{
		Burst: small(Tree, 100), Length: 300, Handle: 1, Idle: 60, Keep: 4,
		Rates: []RateFrom{{0, 2}, {60, 40}, {120, 2}},
	}
	tr.Form = tree.Complete
	got, err := tr.Run(1)
	if err != nil {
		t.Fatal(err)
	}
	at := func(s float64) Minute {
		i := slices.IndexFunc(got.Parts, func(m Minute) bool { return m.At >= s })
		return got.Parts[i]
	}
	before, first, late, after := at(59), at(63), at(115), at(295)
	if before.Max > 4 || first.Max < 1.5 || late.Mean > 1.05 || late.Mean < 0.99 {
		t.Errorf("response times %+v, %+v, %+v", before, first, late)
	}
	if late.VMs < 40 || after.VMs > 20 || after.VMs < 4 || late.Height < 6 || after.Height >= late.Height {
		t.Errorf("VMs and heights %+v, %+v", late, after)
	}
	if one := int64(tr.Image.Blocks) * tr.Image.Block; got.Registry < one*9/10 || got.Registry > 3*one {
		t.Errorf("%d bytes from the registry, the image has %d", got.Registry, one)
	}
}

// Without a tree all share the registry's link.
func TestTraceSharesTheRegistry(t *testing.T) {
	slowest := map[string]float64{}
	for _, system := range []string{Tree, NoTree, FullPull} {
		tr := Trace{Burst: small(system, 40), Length: 400, Handle: 1, Idle: 60, Rates: []RateFrom{{0, 1}, {20, 20}}}
		tr.Form = tree.Striped
		got, err := tr.Run(1)
		if err != nil {
			t.Fatal(err)
		}
		slowest[system] = slices.Max(got.Provision)
	}
	t.Log(slowest)
	if slowest[Tree] > slowest[NoTree]/2 || slowest[NoTree] > slowest[FullPull]/2 {
		t.Errorf("slowest cold starts: %v", slowest)
	}
}
