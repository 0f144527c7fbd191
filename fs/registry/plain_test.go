package registry

import (
	"testing"

	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

func TestRangesOfABlob(t *testing.T) {
	reg := registrytest.New(t, registrytest.Options{})
	l := addLayer(t, reg, "a/b", 1<<20)
	s := blobs(t, newClient(t, Options{}), reg.Host()+"/a/b:latest")
	for _, r := range [][2]int{{0, 1}, {0, 1 << 20}, {1<<20 - 1, 1}, {512 << 10, 512 << 10}, {777, 100_000}} {
		l.read(t.Context(), t, s, r[0], r[1])
	}
	if n := reg.Count(registrytest.Blobs); n != 5 {
		t.Errorf("%d requests for 5 blocks", n)
	}
}
