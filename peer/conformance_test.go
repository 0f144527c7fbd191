package peer

import (
	"os"
	"testing"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
)

// A neighbour is a good Source.
func TestConformance(t *testing.T) {
	blocktest.Test(t, func(t *testing.T) (block.Source, func(block.Ref, []byte)) {
		f, dir := &fake{files: map[block.Sum]string{}}, t.TempDir()
		server := newReal(t, "parent", NewCatalog())
		server.holds = func(string, block.Ref) (holds, known bool) { return true, true }
		parent := run(t, server, f)
		child, _ := realRelay(t, "child", &fake{}, NewCatalog())
		return reads(t, child, parent), func(ref block.Ref, p []byte) {
			name := dir + "/" + ref.Sum.String()
			if err := os.WriteFile(name, p, 0o600); err != nil {
				t.Fatal(err)
			}
			f.files[ref.Sum] = name
		}
	})
}
