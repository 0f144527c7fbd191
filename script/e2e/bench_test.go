package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestBenchWorks has the lab run each of its commands, as small as can be. It
// knows which there are, and fails where it does not run one.
func TestBenchWorks(t *testing.T) {
	w, err := theWorld()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(w.Tools().Product, "faasnet-bench")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program, "./cmd/faasnet-bench")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	smoke := exec.CommandContext(t.Context(), program, "smoke")
	smoke.Env = append(os.Environ(), "FAASNET_BIN="+w.Tools().Product, "FAASNET_TOOLS="+w.Tools().Dir)
	out, err := smoke.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}
