// Package mounttest keeps tests that mount file systems from leaving any of
// them behind, however they end: passed, failed, crashed, out of time or killed.
package mounttest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

const (
	// guardEnv is set in guarded processes, to their TMPDIR, and in what they start: that is
	// guarded with them.
	guardEnv = "FAASNET_TEST_GUARDED"
	// watchEnv makes a test binary the watcher of its parent.
	watchEnv = "FAASNET_TEST_WATCH"
	// watchPeriod is how often a watcher looks at its parent.
	watchPeriod = 200 * time.Millisecond
)

// Guarded are the tests of a package.
type Guarded struct{ m *testing.M }

// Guard is for TestMain of a package whose tests mount: goleak.VerifyTestMain(mounttest.Guard(m)).
func Guard(m *testing.M) Guarded { return Guarded{m} }

// Run runs the tests with a TMPDIR of their own and returns the exit code. What they left there
// is removed and fails them.
//
// The process of the tests cannot do that when it is killed: threads that wait for its own FUSE
// server are not even ended by SIGKILL, once the server's threads are gone. So another process
// watches it.
func (g Guarded) Run() int {
	if os.Getenv(watchEnv) != "" {
		return watch(os.Getenv(guardEnv))
	}
	if os.Getenv(guardEnv) != "" {
		return g.m.Run()
	}
	dir, stop, err := start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mounttest:", err)
		return 1
	}
	code := g.m.Run()
	stop()
	for _, left := range Clean(dir) {
		fmt.Fprintln(os.Stderr, "mounttest: the tests left", left)
		code = max(code, 1)
	}
	return code
}

// start makes the directory and the watcher, which stop ends.
func start() (dir string, stop func(), err error) {
	dir, err = os.MkdirTemp("", "m") // short: tests have sockets in it
	if err != nil {
		return "", nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", nil, err
	}
	for k, v := range map[string]string{guardEnv: dir, "TMPDIR": dir} {
		if err := os.Setenv(k, v); err != nil {
			return "", nil, err
		}
	}
	exe, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	watcher := exec.CommandContext(context.Background(), exe)
	watcher.Env = append(os.Environ(), watchEnv+"=1")
	watcher.Dir = "/"
	watcher.SysProcAttr = &unix.SysProcAttr{Setsid: true} // signals to the tests' group are not for it
	if err := watcher.Start(); err != nil {
		return "", nil, err
	}
	return dir, func() {
		_ = watcher.Process.Kill()
		_ = watcher.Wait()
	}, nil
}

// watch cleans dir when the parent ends.
func watch(dir string) int {
	parent := os.Getppid()
	for !ending(parent) && os.Getppid() == parent {
		time.Sleep(watchPeriod)
	}
	Clean(dir)
	return 0
}

// ending says whether a process has ended or must: its first thread is gone, or will be when it
// stops waiting.
func ending(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		switch key {
		case "State":
			if value[0] == 'Z' || value[0] == 'X' {
				return true
			}
		case "SigPnd", "ShdPnd":
			if set, err := strconv.ParseUint(value, 16, 64); err == nil && set>>(unix.SIGKILL-1)&1 != 0 {
				return true
			}
		}
	}
	return false
}

// Clean takes away all mounts below dir, and dir, and returns what was there.
func Clean(dir string) (left []string) {
	for range 10 { // a mount may hide another
		mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
		if err != nil || len(mounts) == 0 {
			break
		}
		for _, m := range slices.Backward(mounts) {
			left = append(left, "a mount: "+m.FSType+" on "+m.Mountpoint)
			if strings.HasPrefix(m.FSType, "fuse") { // ends the connection, and all who wait for it
				_ = unix.Unmount(m.Mountpoint, unix.MNT_FORCE|unix.UMOUNT_NOFOLLOW)
			}
			_ = unix.Unmount(m.Mountpoint, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		}
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		left = append(left, "a file: "+filepath.Join(dir, e.Name()))
	}
	if err == nil {
		_ = os.RemoveAll(dir)
	}
	return left
}
