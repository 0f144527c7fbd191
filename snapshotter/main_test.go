package snapshotter

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/faasnet/faasnet/fs/mounttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(mounttest.Guard(m)) }
