package convert_test

import (
	"testing"

	"github.com/containerd/log"
	"go.uber.org/goleak"

	"github.com/faasnet/faasnet/fs/mounttest"
)

func TestMain(m *testing.M) {
	log.SetLevel("error") // containerd's content store warns of file systems without fs-verity
	goleak.VerifyTestMain(mounttest.Guard(m))
}
