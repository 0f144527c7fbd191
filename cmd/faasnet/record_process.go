package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
)

// process is one that records. A pid may be used again; one with the time at
// which the process began is not, until the machine starts anew.
type process struct {
	pid   int
	start uint64 // clock ticks since the machine's start
}

func thisProcess() (process, error) {
	start, _, err := readStat(os.Getpid())
	return process{os.Getpid(), start}, err
}

// gone says whether the process has ended. Who records sees the processes that
// containerd sees, by the same pids: it could not watch a container else.
func (p process) gone() bool {
	start, state, err := readStat(p.pid)
	if os.IsNotExist(err) {
		return true
	}
	return err == nil && (start != p.start || state == 'Z' || state == 'X')
}

// readStat reads when a process began and its state from /proc (proc_pid_stat(5)).
func readStat(pid int) (start uint64, state byte, err error) {
	name := fmt.Sprintf("/proc/%d/stat", pid)
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, 0, err
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // from the third on
	const at = 22 - 3
	if len(fields) <= at {
		return 0, 0, fmt.Errorf("%s has %q: %w", name, b, errdefs.ErrDataLoss)
	}
	start, err = strconv.ParseUint(string(fields[at]), 10, 64)
	return start, fields[0][0], err
}

// recordPrefix begins the names of all that a recording makes.
const recordPrefix = "faasnet-record-"

// name is a new name for something of the process, which says whose it is.
func (p process) name(what string) string {
	return fmt.Sprintf("%s%s-%d-%d-%s", recordPrefix, what, p.pid, p.start, rand.Text())
}

// isOrphan says whether name is that of something whose process is gone.
func isOrphan(name string) bool {
	rest, ok := strings.CutPrefix(name, recordPrefix)
	parts := strings.Split(rest, "-")
	if !ok || len(parts) != 4 {
		return false
	}
	pid, err := strconv.Atoi(parts[1])
	if err != nil || pid < 1 {
		return false
	}
	start, err := strconv.ParseUint(parts[2], 10, 64)
	return err == nil && process{pid, start}.gone()
}
