package peer

import (
	"strings"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
)

func TestRoot(t *testing.T) {
	l := blocktest.NewLayer(3, block.MinSize, 4*block.MinSize)
	r := newReal(t, "me", catalogOf(l))
	refused := func(ref block.Ref, why string) {
		t.Helper()
		if err := r.Root(ref); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), why) {
			t.Errorf("%v: %v, want %q", ref, err, why)
		}
	}
	refused(l.Ref(0), "no place")
	up := Peer{"up", "127.0.0.1:1"}
	if err := r.Place(function, Place{Epoch: 1, Token: "t", Stripes: []Stripe{{}, {Upstream: up}}}); err != nil {
		t.Fatal(err)
	}
	for i := range l.Table.Len() {
		if i%2 == 1 {
			refused(l.Ref(i), "reads from up")
		} else if err := r.Root(l.Ref(i)); err != nil {
			t.Error(err)
		}
	}
	other := blocktest.NewLayer(4, block.MinSize, block.MinSize)
	refused(other.Ref(0), "no function")
	if err := r.Place(function, Place{}); err != nil {
		t.Fatal(err)
	}
	refused(l.Ref(0), "no place")
}
