package store_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
	"github.com/faasnet/faasnet/fs/mounttest"
	"github.com/faasnet/faasnet/fs/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(mounttest.Guard(m)) }

func TestConformance(t *testing.T) {
	for _, reopen := range []bool{false, true} {
		blocktest.Test(t, func(t *testing.T) (block.Source, func(block.Ref, []byte)) {
			root := t.TempDir()
			s, err := store.Open(root, store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			src := &reopened{Store: s}
			t.Cleanup(func() { src.Close() })
			return src, func(ref block.Ref, p []byte) {
				if err := src.Put(t.Context(), ref, p); err != nil {
					t.Fatal(err)
				}
				if !reopen {
					return
				}
				src.Close()
				if src.Store, err = store.Open(root, store.Options{}); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// reopened is a store that changes under the test, between its reads.
type reopened struct{ *store.Store }
