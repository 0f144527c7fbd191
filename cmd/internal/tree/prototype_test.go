package tree

import (
	"fmt"
	"slices"
	"testing"

	"github.com/containerd/errdefs"
)

// The published prototype of FaaSNet (functionTree/*.go) has 17 numbered
// bugs. Each has a test here that its kind is absent.

func fill(t testing.TB, tr Tree, n int) []VM {
	t.Helper()
	vms := make([]VM, n)
	for i := range vms {
		vms[i] = VM(fmt.Sprint("vm", i))
		if _, err := tr.Insert(vms[i]); err != nil {
			t.Fatal(err)
		}
	}
	return vms
}

func drop(t testing.TB, tr Tree, vm VM) []Move {
	t.Helper()
	moves, err := tr.Delete(vm)
	if err != nil {
		t.Fatal(err)
	}
	return moves
}

func TestB1_DeletedRootDoesNotComeBack(t *testing.T) {
	each(t, func(t *testing.T, form Form, tr Tree) {
		t.Helper()
		vms := fill(t, tr, 2)
		drop(t, tr, vms[0])
		for i := range 6 {
			tr.Insert(VM(fmt.Sprint("new", i)))
		}
		drop(t, tr, "new5")
		check(t, tr, form)
		if tr.Has(vms[0]) || tr.Len() != 6 {
			t.Fatalf("%d VMs, the deleted root among them: %v", tr.Len(), tr.Has(vms[0]))
		}
	})
}

func TestB2_LengthCountsDown(t *testing.T) {
	each(t, func(t *testing.T, _ Form, tr Tree) {
		t.Helper()
		for _, vm := range fill(t, tr, 10) {
			drop(t, tr, vm)
		}
		if tr.Len() != 0 || tr.Root(0) != Origin {
			t.Fatalf("empty tree: %d VMs, root %q", tr.Len(), tr.Root(0))
		}
	})
}

func TestB3_DoubleDeleteTouchesNobody(t *testing.T) {
	each(t, func(t *testing.T, form Form, tr Tree) {
		t.Helper()
		vms := fill(t, tr, 7)
		drop(t, tr, vms[6])
		before := tr.Epoch()
		if _, err := tr.Delete(vms[6]); !errdefs.IsNotFound(err) {
			t.Fatalf("second delete: %v", err)
		}
		if tr.Len() != 6 || tr.Epoch() != before {
			t.Fatalf("second delete left %d VMs at epoch %d", tr.Len(), tr.Epoch())
		}
		check(t, tr, form)
	})
}

func TestB4_DeleteOfAStranger(t *testing.T) {
	each(t, func(t *testing.T, _ Form, tr Tree) {
		if _, err := tr.Delete("nobody"); !errdefs.IsNotFound(err) {
			t.Fatalf("on an empty tree: %v", err)
		}
		fill(t, tr, 3)
		if _, err := tr.Delete("nobody"); !errdefs.IsNotFound(err) {
			t.Fatal(err)
		}
	})
}

func TestB5_TreesShareNothing(t *testing.T) {
	each(t, func(t *testing.T, form Form, a Tree) {
		vms := fill(t, a, 7)
		b, _ := New(form)
		b.Insert("other")
		if _, err := b.Delete(vms[6]); !errdefs.IsNotFound(err) {
			t.Fatal(err)
		}
		b.Insert(vms[0])
		drop(t, b, vms[0])
		if a.Len() != 7 {
			t.Fatalf("tree a has %d VMs", a.Len())
		}
		check(t, a, form)
	})
}

func TestB6_ReinsertOfALiveVM(t *testing.T) {
	each(t, func(t *testing.T, form Form, tr Tree) {
		for _, vm := range fill(t, tr, 7) {
			if _, err := tr.Insert(vm); !errdefs.IsAlreadyExists(err) {
				t.Fatalf("%q again: %v", vm, err)
			}
		}
		check(t, tr, form)
	})
}

func TestB7_ReinsertOfADeletedInnerVM(t *testing.T) {
	each(t, func(t *testing.T, form Form, tr Tree) {
		vms := fill(t, tr, 15)
		for _, vm := range vms[:4] {
			drop(t, tr, vm)
			tr.Insert(vm)
			check(t, tr, form)
		}
	})
}

func TestB8_OneNameOnePlace(t *testing.T) {
	each(t, func(t *testing.T, _ Form, tr Tree) {
		fill(t, tr, 9)
		n := 0
		for range tr.All() {
			n++
		}
		if n != 9 {
			t.Fatalf("%d places for 9 VMs", n)
		}
	})
}

// B9 (a flag "ready" that nobody reads): a tree has no such state. Who may
// serve is the relay's business, which answers NOT_YET.
func TestB9_EveryVMIsAPlace(t *testing.T) {
	each(t, func(t *testing.T, _ Form, tr Tree) {
		for _, vm := range fill(t, tr, 3) {
			for s := range tr.Stripes() {
				if up := tr.Upstream(vm, s); up != Origin && !tr.Has(up) {
					t.Fatalf("%q hangs on %q", vm, up)
				}
			}
		}
	})
}

// B10 (data races): a tree has no lock and hands out no interior pointer, so
// a caller's lock covers it. What it returns stays as it was.
func TestB10_ResultsAreCopies(t *testing.T) {
	each(t, func(t *testing.T, form Form, tr Tree) {
		vms := fill(t, tr, 7)
		for s := range tr.Stripes() {
			for _, vm := range vms {
				down := tr.Downstream(vm, s)
				for i := range down {
					down[i] = "scribble"
				}
			}
		}
		check(t, tr, form)
	})
}

func TestB11_EveryChangeReturnsItsMoves(t *testing.T) {
	each(t, func(t *testing.T, _ Form, tr Tree) {
		s := shadow{}
		for i := range 60 {
			moves, _ := tr.Insert(VM(fmt.Sprint(i)))
			s.apply(t, tr, moves)
			s.agree(t, tr)
		}
		for i := range 60 {
			vm := VM(fmt.Sprint((i * 37) % 60))
			moves := drop(t, tr, vm)
			s.apply(t, tr, moves)
			s.agree(t, tr)
		}
	})
}

// B12 (a VM with fewer blocks becomes the upstream of one with more): what a
// move may do to a reader is bounded by how few VMs move. The relay copes
// with the rest: it never waits on its own descendant.
func TestB12_FewVMsMove(t *testing.T) {
	for form, most := range map[Form]int{Striped: 5, Complete: 3} {
		tr, _ := New(form)
		for _, vm := range fill(t, tr, 500) {
			if got := moved(drop(t, tr, vm), vm); got > most {
				t.Fatalf("%s: %d VMs moved", form, got)
			}
		}
	}
}

// B13 (an empty leaf becomes root): in the complete tree the root is replaced
// by the last VM and nobody else of the interior moves; in the striped trees
// the other stripe keeps its root.
func TestB13_ANewRootMovesOneStripe(t *testing.T) {
	tr, _ := New(Striped)
	fill(t, tr, 100)
	other := tr.Root(1)
	drop(t, tr, tr.Root(0))
	if tr.Root(1) != other {
		t.Fatalf("root of stripe 1 was %q, is %q", other, tr.Root(1))
	}
}

// B14 (insert walks all VMs): BenchmarkInsert has a million; here that a large
// tree can be built and taken down in part.
func TestB14_AHundredThousandVMs(t *testing.T) {
	each(t, func(t *testing.T, form Form, tr Tree) {
		vms := fill(t, tr, 100_000)
		for _, vm := range vms[:1000] {
			drop(t, tr, vm)
		}
		depth := len(Ancestors(tr, vms[len(vms)-1], 0))
		if limit := promises[form].depth(tr.Len()); depth > limit {
			t.Fatalf("depth %d of %d VMs", depth, tr.Len())
		}
	})
}

func TestB15_ShrinkingKeepsTheDepth(t *testing.T) {
	each(t, func(t *testing.T, form Form, tr Tree) {
		vms := fill(t, tr, 2500)
		for _, vm := range vms[:1875] {
			drop(t, tr, vm)
		}
		check(t, tr, form)
	})
}

func TestB16_AFailedCallChangesNothing(t *testing.T) {
	each(t, func(t *testing.T, _ Form, tr Tree) {
		if _, err := tr.Insert(Origin); !errdefs.IsInvalidArgument(err) {
			t.Fatal(err)
		}
		fill(t, tr, 3)
		before := tr.Epoch()
		tr.Insert("vm1")
		tr.Delete("nobody")
		if tr.Epoch() != before || tr.Len() != 3 {
			t.Fatalf("epoch %d, want %d; %d VMs", tr.Epoch(), before, tr.Len())
		}
	})
}

// B17 (log lines under the lock on the hot path): an insert allocates for the
// new VM and its moves only.
func TestB17_InsertDoesLittle(t *testing.T) {
	each(t, func(t *testing.T, _ Form, tr Tree) {
		fill(t, tr, 4000)
		names := make([]VM, 0, 200)
		for i := range cap(names) {
			names = append(names, VM(fmt.Sprint("extra", i)))
		}
		i := 0
		if n := testing.AllocsPerRun(100, func() { tr.Insert(names[i]); i++ }); n > 12 {
			t.Fatalf("%v allocations an insert", n)
		}
	})
}

func TestAncestorsEndAtTheRoot(t *testing.T) {
	each(t, func(t *testing.T, _ Form, tr Tree) {
		vms := fill(t, tr, 20)
		for s := range tr.Stripes() {
			up := Ancestors(tr, vms[19], s)
			if len(up) == 0 || up[len(up)-1] != tr.Root(s) || slices.Contains(up, vms[19]) {
				t.Fatalf("ancestors %v, root %q", up, tr.Root(s))
			}
		}
	})
}

func TestUnknownForm(t *testing.T) {
	if _, err := New("star"); !errdefs.IsInvalidArgument(err) {
		t.Fatal(err)
	}
}
