package tree

import (
	"flag"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/containerd/errdefs"
)

var (
	ops  = flag.Int("tree.ops", 30_000, "random operations a form; make soak does 1,000,000")
	seed = flag.Uint64("tree.seed", 1, "seed of the random operations")
)

// bounds is what each form promises beyond the invariants of Tree.
type bounds struct {
	join, leave int // VMs moved besides the one that joins or leaves
	depth       func(n int) int
	level       bool // heights of siblings differ by one at most
}

func log2(n int) int { return bits.Len(uint(n)) - 1 }

var promises = map[Form]bounds{
	Striped:  {join: 1, leave: 5, depth: func(n int) int { return log2(n) + 1 }},
	Complete: {leave: 3, depth: log2, level: true},
	// Two thirds more than a complete tree is above AVL's 1.44 log2(n+2).
	Rotate: {leave: 1 << 30, depth: func(n int) int { return 1 + log2(n)*5/3 }, level: true},
}

func each(t *testing.T, f func(t *testing.T, form Form, tr Tree)) {
	for _, form := range []Form{Striped, Complete, Rotate} {
		t.Run(string(form), func(t *testing.T) {
			tr, err := New(form)
			if err != nil {
				t.Fatal(err)
			}
			f(t, form, tr)
		})
	}
}

// check fails unless every invariant holds.
func check(t testing.TB, tr Tree, form Form) {
	t.Helper()
	children := map[VM]int{}
	for s := range tr.Stripes() {
		roots := 0
		for vm := range tr.All() {
			up := tr.Upstream(vm, s)
			switch {
			case up == Origin:
				roots++
			case !tr.Has(up):
				t.Fatalf("stripe %d: %q reads from %q, which is not in the tree", s, vm, up)
			case !slices.Contains(tr.Downstream(up, s), vm):
				t.Fatalf("stripe %d: %q reads from %q, which does not know", s, vm, up)
			}
			for _, d := range tr.Downstream(vm, s) {
				children[vm]++
				if tr.Upstream(d, s) != vm {
					t.Fatalf("stripe %d: %q serves %q, which does not know", s, vm, d)
				}
			}
			depth, limit := 0, promises[form].depth(tr.Len())
			for p := up; p != Origin; p = tr.Upstream(p, s) {
				if depth++; depth > limit {
					t.Fatalf("stripe %d: %q is deeper than %d of %d VMs, or in a ring", s, vm, limit, tr.Len())
				}
			}
		}
		root := tr.Root(s)
		if (root == Origin) != (tr.Len() == 0) || tr.Upstream(root, s) != Origin {
			t.Fatalf("stripe %d: root %q of %d VMs", s, root, tr.Len())
		}
		if roots != min(1, tr.Len()) {
			t.Fatalf("stripe %d: %d roots", s, roots)
		}
		if promises[form].level {
			level(t, tr, root)
		}
	}
	if form == Striped && tr.Len() > 1 {
		a, b := tr.Root(0), tr.Root(1)
		if tr.Upstream(a, 1) != b || tr.Upstream(b, 0) != a {
			t.Fatalf("the roots are %q and %q, and not right below each other", a, b)
		}
	}
	for vm, n := range children {
		if n > 2 {
			t.Fatalf("%q serves %d VMs", vm, n)
		}
	}
}

func level(t testing.TB, tr Tree, vm VM) int {
	t.Helper()
	if vm == Origin {
		return 0
	}
	var h [2]int
	for i, d := range tr.Downstream(vm, 0) {
		h[i] = level(t, tr, d)
	}
	if d := h[0] - h[1]; d < -1 || d > 1 {
		t.Fatalf("heights below %q: %v", vm, h)
	}
	return 1 + max(h[0], h[1])
}

// shadow follows the moves as the VMs do and must always agree with the tree.
type shadow map[edge]VM

func (s shadow) apply(t *testing.T, tr Tree, moves []Move) {
	t.Helper()
	for _, m := range moves {
		e := edge{m.VM, m.Stripe}
		if s[e] != m.Old || m.Epoch != tr.Epoch() {
			t.Fatalf("%+v, but it read from %q and the epoch is %d", m, s[e], tr.Epoch())
		}
		s[e] = m.New
	}
}

func (s shadow) agree(t *testing.T, tr Tree) {
	t.Helper()
	for vm := range tr.All() {
		for stripe := range tr.Stripes() {
			if got := s[edge{vm, stripe}]; got != tr.Upstream(vm, stripe) {
				t.Fatalf("the moves say %q reads from %q, the tree says %q", vm, got, tr.Upstream(vm, stripe))
			}
		}
	}
}

func moved(moves []Move, vm VM) int {
	seen := map[VM]bool{}
	for _, m := range moves {
		if m.VM != vm {
			seen[m.VM] = true
		}
	}
	return len(seen)
}

// TestRandomOperations checks every invariant after every operation on trees
// that breathe between 0 and 40 VMs, and after every 1,000th on larger ones.
func TestRandomOperations(t *testing.T) {
	each(t, func(t *testing.T, form Form, _ Tree) {
		for _, size := range []int{3, 40, 2500} {
			n := *ops / 2
			if size == 2500 {
				n = *ops / 10
			}
			churn(t, form, size, n)
		}
	})
	t.Logf("%d operations a form, seed %d", *ops/2*2+*ops/10, *seed)
}

func churn(t *testing.T, form Form, size, n int) {
	tr, _ := New(form)
	rng := rand.New(rand.NewPCG(*seed, uint64(size)))
	s, live, next := shadow{}, []VM{}, 0
	worst, total, leaves := 0, 0, 0
	for i := range n {
		grow := rng.IntN(size) >= len(live)
		var moves []Move
		var err error
		if grow {
			vm := VM(fmt.Sprint(next))
			next++
			live = append(live, vm)
			moves, err = tr.Insert(vm)
			if got := moved(moves, vm); got > promises[form].join {
				t.Fatalf("a join moved %d VMs: %v", got, moves)
			}
		} else {
			k := rng.IntN(len(live))
			vm := live[k]
			live = slices.Delete(live, k, k+1)
			moves, err = tr.Delete(vm)
			for stripe := range tr.Stripes() {
				delete(s, edge{vm, stripe})
			}
			got := moved(moves, vm)
			if got > promises[form].leave {
				t.Fatalf("a leave moved %d VMs: %v", got, moves)
			}
			worst, total, leaves = max(worst, got), total+got, leaves+1
		}
		if err != nil {
			t.Fatal(err)
		}
		s.apply(t, tr, moves)
		if tr.Len() != len(live) {
			t.Fatalf("%d VMs, want %d", tr.Len(), len(live))
		}
		if size <= 40 || i%1000 == 0 {
			check(t, tr, form)
			s.agree(t, tr)
		}
	}
	t.Logf("up to %d VMs: %.2f moved a leave, %d at most", size, float64(total)/float64(max(leaves, 1)), worst)
}

// FuzzOperations reads each byte as an operation: the low bit joins or
// leaves, the rest names the VM.
func FuzzOperations(f *testing.F) {
	f.Add([]byte{1, 3, 5, 7, 9, 0, 2, 4})
	f.Add([]byte{1, 3, 2, 5, 0, 1, 4, 4, 1})
	f.Fuzz(func(t *testing.T, program []byte) {
		for _, form := range []Form{Striped, Complete, Rotate} {
			tr, _ := New(form)
			model := map[VM]bool{}
			for _, b := range program[:min(len(program), 300)] {
				vm := VM(fmt.Sprint(b >> 1))
				var err error
				if b&1 == 1 {
					_, err = tr.Insert(vm)
					if errdefs.IsAlreadyExists(err) != model[vm] {
						t.Fatalf("insert %q: %v", vm, err)
					}
					model[vm] = true
				} else {
					_, err = tr.Delete(vm)
					if errdefs.IsNotFound(err) == model[vm] {
						t.Fatalf("delete %q: %v", vm, err)
					}
					delete(model, vm)
				}
				if tr.Len() != len(model) {
					t.Fatalf("%d VMs, want %d", tr.Len(), len(model))
				}
				check(t, tr, form)
			}
		}
	})
}
