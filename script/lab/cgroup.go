package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const cgroups = "/sys/fs/cgroup"

// group is the path of a cgroup below the root of each hierarchy. It counts
// CPU time and knows its processes, those of child groups included.
type group string

// hierarchy is where processes are counted: the only one of cgroup v2, or
// cpuacct of v1.
func hierarchy() (root string, v2 bool) {
	if _, err := os.Stat(filepath.Join(cgroups, "cgroup.controllers")); err == nil {
		return cgroups, true
	}
	return filepath.Join(cgroups, "cpuacct"), false
}

func (g group) dir() string {
	root, _ := hierarchy()
	return filepath.Join(root, string(g))
}

// leaf makes a child group for processes and returns the file that takes
// them in. Containers get groups of their own beside it.
func (g group) leaf() (procs string, err error) {
	dir := filepath.Join(g.dir(), "daemons")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("cgroup: %w", err)
	}
	return filepath.Join(dir, "cgroup.procs"), nil
}

// cpu returns the CPU time of all processes that ever were in the group.
func (g group) cpu() (time.Duration, error) {
	root, v2 := hierarchy()
	if !v2 {
		p, err := os.ReadFile(filepath.Join(root, string(g), "cpuacct.usage"))
		if err != nil {
			return 0, err
		}
		ns, err := strconv.ParseInt(strings.TrimSpace(string(p)), 10, 64)
		return time.Duration(ns), err
	}
	p, err := os.ReadFile(filepath.Join(root, string(g), "cpu.stat"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(p)) {
		if us, ok := strings.CutPrefix(line, "usage_usec "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(us), 10, 64)
			return time.Duration(n) * time.Microsecond, err
		}
	}
	return 0, fmt.Errorf("no usage_usec in cpu.stat of %s", g)
}

// pids lists the processes of the group and its children.
func (g group) pids() ([]int, error) {
	var pids []int
	err := filepath.WalkDir(g.dir(), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return ignoreGone(err)
		}
		p, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		for _, f := range strings.Fields(string(p)) {
			if pid, err := strconv.Atoi(f); err == nil {
				pids = append(pids, pid)
			}
		}
		return ignoreGone(err)
	})
	return pids, ignoreGone(err)
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) { // removed while we look
		return nil
	}
	return err
}

// kill kills all processes of the group until none is left. One that hangs in
// the kernel ends it with an error after killPatience.
func (g group) kill() error {
	const killPatience = 20 * time.Second
	for end := time.Now().Add(killPatience); ; time.Sleep(10 * time.Millisecond) {
		pids, err := g.pids()
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		if time.Now().After(end) {
			return fmt.Errorf("processes %v of %s survive SIGKILL", pids, g)
		}
	}
}

// remove removes the group from every hierarchy: the runtime makes it in all.
func (g group) remove() error {
	tops, err := filepath.Glob(filepath.Join(cgroups, "*", string(g)))
	if err != nil {
		return err
	}
	for _, top := range append(tops, filepath.Join(cgroups, string(g))) {
		var dirs []string
		_ = filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for _, dir := range slices.Backward(dirs) {
			err = errors.Join(err, removeGroup(dir))
		}
	}
	return err
}

// removeGroup removes one cgroup without children. Processes that are listed no
// more may still be on their way out of it.
func removeGroup(dir string) error {
	const patience = 5 * time.Second
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		err := os.Remove(dir)
		if err == nil || os.IsNotExist(err) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(end) {
			return err
		}
	}
}

// orphans lists the groups of labs that have no directory any more.
func orphans() (gone []group, err error) {
	root, _ := hierarchy()
	dirs, err := filepath.Glob(filepath.Join(root, prefix+"*"))
	for _, dir := range dirs {
		name := filepath.Base(dir)
		if _, serr := os.Stat(filepath.Join(parent, name)); errors.Is(serr, fs.ErrNotExist) {
			gone = append(gone, group(name))
		}
	}
	return gone, err
}
