package sim

import (
	"io"
	"os"
	"strconv"
	"testing"

	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	logrus.SetOutput(io.Discard)
	if os.Getenv(verbose) != "" {
		logrus.SetOutput(os.Stderr)
		logrus.SetLevel(logrus.DebugLevel)
	}
	goleak.VerifyTestMain(m)
}

// long reports whether there is time for large fleets: `make sim` says so.
func long() bool { return os.Getenv("FAASNET_SIM") != "" }

// number returns a variable of the environment, or def.
func number(t *testing.T, name string, def int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return def
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		t.Fatalf("%s=%s is not a number", name, s)
	}
	return n
}
