package treebench

import (
	"flag"
	"testing"

	"github.com/faasnet/faasnet/cmd/internal/tree"
)

// Every benchmark runs to its end on trees that are as full after it as before.
func TestAll(t *testing.T) {
	old := flag.Lookup("test.benchtime").Value.String()
	if err := flag.Set("test.benchtime", "3x"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { flag.Set("test.benchtime", old) })
	for _, change := range All() {
		for _, form := range []tree.Form{tree.Striped, tree.Complete, tree.Rotate} {
			for _, size := range []int{1, 300} {
				r := testing.Benchmark(func(b *testing.B) { b.Helper(); change.Run(b, form, size) })
				if r.N != 3 || r.Extra[Unit] <= 0 {
					t.Errorf("%s of %s trees with %d VMs: %d runs, %v", change.Name, form, size, r.N, r.Extra)
				}
			}
		}
	}
}
