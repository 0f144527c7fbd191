package endpoint_test

import (
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/log"
	"go.uber.org/goleak"

	"github.com/faasnet/faasnet/convert/endpoint"
)

func TestMain(m *testing.M) {
	log.SetLevel("error") // containerd's content store warns of file systems without fs-verity
	goleak.VerifyTestMain(m)
}

func newStore(t testing.TB, below ...content.InfoReaderProvider) content.Store {
	t.Helper()
	cs, err := endpoint.NewStore(t.TempDir(), below...)
	if err != nil {
		t.Fatal(err)
	}
	return cs
}
