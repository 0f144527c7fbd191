package block_test

import (
	"testing"

	"github.com/containerd/errdefs"
	"go.uber.org/goleak"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestVerify(t *testing.T) {
	l := blocktest.NewLayer(1, block.MinSize, 2*block.MinSize)
	if err := l.Ref(1).Verify(l.Frame(1)); err != nil {
		t.Error(err)
	}
	longer := append(l.Frame(1), 0) // Frame has no spare capacity
	flipped := append([]byte(nil), l.Frame(1)...)
	flipped[9] ^= 0x80
	for name, p := range map[string][]byte{
		"nothing": nil, "shorter": l.Frame(1)[1:], "longer": longer, "flipped": flipped, "another block": l.Frame(0),
	} {
		if err := l.Ref(1).Verify(p); !errdefs.IsDataLoss(err) {
			t.Errorf("%s: got %v, want ErrDataLoss", name, err)
		}
	}
}
