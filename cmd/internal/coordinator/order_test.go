package coordinator

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/faasnet/faasnet/cmd/internal/tree"
)

// grown is a tree with a past.
func grown(t testing.TB, form tree.Form, n int, r *rand.Rand) tree.Tree {
	t.Helper()
	tr, err := tree.New(form)
	if err != nil {
		t.Fatal(err)
	}
	var in []tree.VM
	for i := 0; len(in) < n; i++ {
		vm := tree.VM(fmt.Sprint("vm", i))
		if _, err := tr.Insert(vm); err != nil {
			t.Fatal(err)
		}
		in = append(in, vm)
		if r.IntN(3) == 0 {
			k := r.IntN(len(in))
			if _, err := tr.Delete(in[k]); err != nil {
				t.Fatal(err)
			}
			in = slices.Delete(in, k, k+1)
		}
	}
	return tr
}

// replanted is the tree of the same VMs in the order that order says, and how
// many upstreams are others than before, of how many.
func replanted(t testing.TB, form tree.Form, old tree.Tree, blocks func(tree.VM) uint64, r *rand.Rand) (now tree.Tree, moved, edges int) {
	t.Helper()
	var claims []claim
	for vm := range old.All() {
		claims = append(claims, claim{vm, blocks(vm), upstreams(old, vm)})
	}
	r.Shuffle(len(claims), func(i, j int) { claims[i], claims[j] = claims[j], claims[i] })
	now, err := tree.New(form)
	if err != nil {
		t.Fatal(err)
	}
	for _, vm := range order(claims, now.Stripes()) {
		if _, err := now.Insert(vm); err != nil {
			t.Fatal(err)
		}
	}
	tree.Rehang(now, old.Upstream)
	if now.Len() != old.Len() {
		t.Fatalf("%d VMs, want %d", now.Len(), old.Len())
	}
	for vm := range old.All() {
		for s := range old.Stripes() {
			edges++
			if now.Upstream(vm, s) != old.Upstream(vm, s) {
				moved++
			}
		}
	}
	return now, moved, edges
}

func TestOrderKeepsShapes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	same := func(tree.VM) uint64 { return 1000 }
	for _, n := range []int{1, 2, 3, 7, 8, 100, 501} {
		old := grown(t, tree.Complete, n, r)
		if _, moved, edges := replanted(t, tree.Complete, old, same, r); moved != 0 {
			t.Errorf("complete, %d VMs: %d of %d edges moved", n, moved, edges)
		}
		old = grown(t, tree.Striped, n, r)
		now, moved, edges := replanted(t, tree.Striped, old, same, r)
		if moved != 0 {
			t.Errorf("striped, %d VMs: %d of %d edges moved", n, moved, edges)
		}
		if err := sound(now, tree.Striped); err != nil {
			t.Error(err)
		}
	}
}

func TestOrderPutsThoseWithMostBlocksNearTheRoot(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for _, form := range []tree.Form{tree.Striped, tree.Complete, tree.Rotate} {
		old := grown(t, form, 300, r)
		has := map[tree.VM]uint64{}
		for vm := range old.All() {
			has[vm] = r.Uint64N(1000)
		}
		most := uint64(0)
		for _, n := range has {
			most = max(most, n)
		}
		now, _, _ := replanted(t, form, old, func(vm tree.VM) uint64 { return has[vm] }, r)
		for vm, n := range has {
			for s := range now.Stripes() {
				up := now.Upstream(vm, s)
				inner := len(now.Downstream(up, s)) > 0
				// Of two stripes, a VM is a leaf of one whatever it has.
				leaf := form == tree.Striped && len(now.Downstream(vm, s)) == 0
				if up != tree.Origin && inner && !leaf && form != tree.Rotate && has[up]+most/parts+1 < n {
					t.Errorf("%s: %s with %d blocks reads from %s with %d", form, vm, n, up, has[up])
				}
			}
		}
	}
}

func TestOrderTakesLies(t *testing.T) {
	claims := []claim{
		{"a", 1, []tree.VM{"b", "b"}}, {"b", 1, []tree.VM{"a", "a"}}, // a ring
		{"c", 1 << 63, []tree.VM{"c", "c"}}, // its own upstream
		{"d", 1, []tree.VM{"nobody", ""}},
		{"e", 0, nil},
		{"f", 1, []tree.VM{"d"}}, // of another form
	}
	got := order(claims, 2)
	slices.Sort(got)
	if want := []tree.VM{"a", "b", "c", "d", "e", "f"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
