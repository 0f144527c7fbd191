package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/rivals"
)

// report is what --json writes: again after each row, so that a run that is
// cut short is not lost. R is a measured row, S one that sums up.
type report[R, S any] struct {
	file string

	Machine machine  `json:"machine"`
	Args    []string `json:"args"`
	Rows    []R      `json:"rows"`
	Summary []S      `json:"summary"`
}

func newReport[R, S any](file string) (*report[R, S], error) {
	m, err := thisMachine()
	if err == nil && file != "" {
		err = writable("json", file)
	}
	return &report[R, S]{file: file, Machine: m, Args: os.Args[1:], Rows: []R{}, Summary: []S{}}, err
}

// writable makes sure, before anything is measured, that the file of a flag can be
// written.
func writable(flag, file string) error {
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file))
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// add adds a row; summary sums up all rows so far.
func (r *report[R, S]) add(row R, summary func([]R) []S) error { return r.addAll([]R{row}, summary) }

func (r *report[R, S]) addAll(rows []R, summary func([]R) []S) error {
	r.Rows = append(r.Rows, rows...)
	r.Summary = summary(r.Rows)
	if r.file == "" {
		return nil
	}
	return writeJSON(r.file, r)
}

// writeJSON replaces the file, which is whole at any moment.
func writeJSON(file string, v any) error {
	p, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file))
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // gone after the rename
	_, err = temp.Write(append(p, '\n'))
	if err := errors.Join(err, temp.Chmod(0o644), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), file)
}

// resume takes over the rows that an earlier run wrote to the file, of the same
// program on the same machine.
func (r *report[R, S]) resume() error {
	if r.file == "" {
		return usagef("--resume needs --json")
	}
	p, err := os.ReadFile(r.file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var old report[R, S]
	if err := json.Unmarshal(p, &old); err != nil {
		return fmt.Errorf("%s: %w", r.file, err)
	}
	if !reflect.DeepEqual(old.Machine, r.Machine) {
		return fmt.Errorf("%s: results of another machine or program: %+v, this one is %+v", r.file, old.Machine, r.Machine)
	}
	r.Rows = old.Rows
	return nil
}

// machine says where figures come from.
type machine struct {
	Kernel   string            `json:"kernel"`
	CPU      string            `json:"cpu"`
	CPUs     int               `json:"cpus"`
	MemoryMB uint64            `json:"memory_mb"`
	Go       string            `json:"go"`
	Revision string            `json:"revision"`
	TCP      string            `json:"tcp"` // congestion control
	Versions map[string]string `json:"versions"`
}

func thisMachine() (machine, error) {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return machine{}, err
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return machine{}, err
	}
	m := machine{
		Kernel: unix.ByteSliceToString(uts.Release[:]), CPUs: runtime.NumCPU(), Go: runtime.Version(),
		MemoryMB: info.Totalram * uint64(info.Unit) >> 20, Revision: "unknown", Versions: rivals.Versions(),
	}
	cpus, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return machine{}, err
	}
	for line := range strings.Lines(string(cpus)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			m.CPU = strings.Trim(name, "\t :\n")
			break
		}
	}
	tcp, err := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control")
	if err != nil {
		return machine{}, err
	}
	m.TCP = strings.TrimSpace(string(tcp))
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, s := range build.Settings {
			if s.Key == "vcs.revision" {
				m.Revision = s.Value
			}
		}
		for _, d := range build.Deps {
			if d.Path == "github.com/containerd/containerd/v2" { // the release that `make tools` builds, too
				m.Versions["containerd"] = d.Version
			}
		}
	}
	for _, pkg := range []string{"runc", "docker-registry", "stargz-snapshotter"} {
		if out, err := exec.CommandContext(context.Background(), "dpkg-query", "-W", "-f", "${Version}", pkg).Output(); err == nil {
			m.Versions[pkg] = string(out)
		}
	}
	return m, nil
}

// lock waits until no other run measures on this machine. The lock goes with
// the process.
func lock(ctx context.Context) (unlock func() error, err error) {
	const path = "/var/tmp/faasnet-bench.lock"
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for told := false; ; told = true {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f.Close, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
		if !told {
			fmt.Fprintln(os.Stderr, "another run holds", path, "- waiting for its end")
		}
		select {
		case <-time.After(200 * time.Millisecond): // a wait in the kernel would not hear Ctrl-C
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, ctx.Err()), f.Close())
		}
	}
}

// dropCaches empties the page cache and the caches of names.
func dropCaches() error {
	unix.Sync()
	return os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0o644)
}
