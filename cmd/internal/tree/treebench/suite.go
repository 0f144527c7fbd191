// Package treebench has the benchmarks of function trees.
package treebench

import (
	"strconv"
	"testing"

	"github.com/faasnet/faasnet/cmd/internal/tree"
)

// Unit is the metric that every benchmark reports.
const Unit = "changes/s"

// Benchmark is one kind of change of a tree with size VMs.
type Benchmark struct {
	Name string
	Run  func(b *testing.B, form tree.Form, size int)
}

// All lists all benchmarks.
func All() []Benchmark {
	return []Benchmark{
		{"grow", grow},
		{"insert", insert},
		{"delete", remove},
		{"churn", churn},
	}
}

// grow fills a tree from nothing, as a burst does.
func grow(b *testing.B, form tree.Form, size int) {
	vms := names(size)
	for b.Loop() {
		each(b, vms, newTree(b, form).Insert)
	}
	report(b, size)
}

// insert adds a hundredth of the VMs, which were taken away before.
func insert(b *testing.B, form tree.Form, size int) {
	t, vms := full(b, form, size)
	some := newHundredth(vms)
	for b.Loop() {
		b.StopTimer()
		batch := some.next()
		each(b, batch, t.Delete)
		b.StartTimer()
		each(b, batch, t.Insert)
	}
	report(b, len(some.batch))
}

// remove takes away a hundredth of the VMs, which are added again after it.
func remove(b *testing.B, form tree.Form, size int) {
	t, vms := full(b, form, size)
	some := newHundredth(vms)
	for b.Loop() {
		batch := some.next()
		each(b, batch, t.Delete)
		b.StopTimer()
		each(b, batch, t.Insert)
		b.StartTimer()
	}
	report(b, len(some.batch))
}

// churn takes VMs away and adds them again, one at a time.
func churn(b *testing.B, form tree.Form, size int) {
	t, vms := full(b, form, size)
	some := newHundredth(vms)
	for b.Loop() {
		for _, vm := range some.next() {
			must(b)(t.Delete(vm))
			must(b)(t.Insert(vm))
		}
	}
	report(b, 2*len(some.batch))
}

func report(b *testing.B, changes int) {
	b.ReportMetric(float64(b.N)*float64(changes)/b.Elapsed().Seconds(), Unit)
}

// hundredth gives a hundredth of the VMs at a time, from all over the tree.
type hundredth struct {
	vms, batch []tree.VM
	at         int
}

func newHundredth(vms []tree.VM) *hundredth {
	return &hundredth{vms: vms, batch: make([]tree.VM, max(1, len(vms)/100))}
}

func (h *hundredth) next() []tree.VM {
	for i := range h.batch {
		const step = 7919 // prime to the number of VMs: steps of it meet all
		h.at = (h.at + step) % len(h.vms)
		h.batch[i] = h.vms[h.at]
	}
	return h.batch
}

func each(b *testing.B, vms []tree.VM, change func(tree.VM) ([]tree.Move, error)) {
	for _, vm := range vms {
		must(b)(change(vm))
	}
}

func full(b *testing.B, form tree.Form, size int) (tree.Tree, []tree.VM) {
	b.Helper()
	t, vms := newTree(b, form), names(size)
	each(b, vms, t.Insert)
	return t, vms
}

func newTree(b *testing.B, form tree.Form) tree.Tree {
	b.Helper()
	t, err := tree.New(form)
	if err != nil {
		b.Fatal(err)
	}
	return t
}

func names(size int) []tree.VM {
	vms := make([]tree.VM, size)
	for i := range vms {
		vms[i] = tree.VM("vm" + strconv.Itoa(i))
	}
	return vms
}

func must(b *testing.B) func([]tree.Move, error) {
	return func(_ []tree.Move, err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
}
