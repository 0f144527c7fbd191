package tree_test

import (
	"fmt"
	"testing"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/cmd/internal/tree/treebench"
)

func BenchmarkTree(b *testing.B) {
	for _, change := range treebench.All() {
		for _, form := range []tree.Form{tree.Striped, tree.Complete, tree.Rotate} {
			for _, size := range []int{1_000, 10_000, 100_000, 1_000_000} {
				b.Run(fmt.Sprintf("%s/%s/%d", change.Name, form, size), func(b *testing.B) { change.Run(b, form, size) })
			}
		}
	}
}
