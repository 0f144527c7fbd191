package sim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// verbose is the variable of the environment that makes everybody tell what
// happens.
const verbose = "SIM_LOG"

// memory is a file system in memory: what VMs store is read once and thrown away.
const memory = "/dev/shm"

// scratch makes a directory, in memory where there is such a file system. What a
// process that crashed has left goes first.
func scratch(t *testing.T) (dir string, remove func()) {
	t.Helper()
	parent := memory
	if unix.Access(memory, unix.W_OK) != nil {
		parent = t.TempDir()
	}
	const prefix = "faasnet-sim-"
	old, err := filepath.Glob(filepath.Join(parent, prefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range old {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(d), prefix), "-")
		if n, err := strconv.Atoi(pid); err == nil && errors.Is(unix.Kill(n, 0), unix.ESRCH) {
			_ = os.RemoveAll(d) // another run may do the same
		}
	}
	dir, err = os.MkdirTemp(parent, fmt.Sprintf("%s%d-", prefix, os.Getpid())) //nolint:usetesting // in memory, and gone with the fleet
	if err != nil {
		t.Fatal(err)
	}
	return dir, func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}
}
