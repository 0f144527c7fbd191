// Package lab runs real parts on one machine: containerd, registry, our
// daemon, each with its own directories and sockets, in a network namespace
// of its own where wanted. End-to-end tests, the demo and the bench stand on
// it.
//
// All that a Lab starts lives in one directory, one tree of cgroups and
// anonymous network namespaces, and goes with Close. What a lab leaves behind
// whose process was killed goes when the next one starts.
package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Where labs live: on disk, unlike /run, and short, since the path of a Unix
// socket has at most 107 bytes.
const (
	parent = "/var/tmp"
	prefix = "fnlab-"
)

// Lab is a scratch directory with processes. Not safe for concurrent use; its
// Hosts are independent of each other.
type Lab struct {
	dir   string
	tools Tools
	group group // cgroup of everything
	nets  []*Net
}

// New starts an empty lab that uses tools. Needs root.
func New(tools Tools) (_ *Lab, err error) {
	if err := sweep(); err != nil {
		return nil, fmt.Errorf("clean up after an earlier lab: %w", err)
	}
	dir, err := os.MkdirTemp(parent, prefix)
	if err != nil {
		return nil, err
	}
	l := &Lab{dir: dir, tools: tools, group: group(filepath.Base(dir))}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	return l, os.WriteFile(filepath.Join(dir, "pid"), []byte(strconv.Itoa(os.Getpid())), 0o644)
}

// Dir is the lab's directory.
func (l *Lab) Dir() string { return l.dir }

// Tools are the programs that the lab runs.
func (l *Lab) Tools() Tools { return l.tools }

// Close kills all processes of the lab, unmounts all below its directory and
// removes it. Idempotent.
func (l *Lab) Close() error {
	err := remove(l.dir)
	for _, n := range l.nets {
		err = errors.Join(err, n.ns.Close())
	}
	l.nets = nil
	return err
}

// sweep removes labs whose process is gone.
func sweep() error {
	dirs, err := filepath.Glob(filepath.Join(parent, prefix+"*"))
	for _, dir := range dirs {
		p, readErr := os.ReadFile(filepath.Join(dir, "pid"))
		if os.IsNotExist(readErr) {
			continue // being made
		}
		if pid, _ := strconv.Atoi(string(p)); unix.Kill(pid, 0) == nil {
			continue
		}
		err = errors.Join(err, remove(dir))
	}
	gone, goneErr := orphans()
	for _, g := range gone {
		err = errors.Join(err, g.remove())
	}
	return errors.Join(err, goneErr)
}

func remove(dir string) error {
	rel, err := filepath.Rel(parent, dir)
	if err != nil {
		return err
	}
	g := group(rel) // the tree of groups has the names of the directories
	err = g.kill()
	for _, sock := range shimSockets(dir) {
		_ = os.Remove(sock) // the shim may have done it
	}
	err = errors.Join(err, unmountBelow(dir))
	if err != nil {
		return err // never delete through a mount that is still there
	}
	return errors.Join(os.RemoveAll(dir), g.remove())
}

var shimSocket = regexp.MustCompile(`unix://([^"\s]+)`)

// shimSockets lists the sockets of shims that did not end by themselves; they
// lie outside the lab. containerd notes them in a file that has had two names.
func shimSockets(dir string) (sockets []string) {
	for _, note := range []string{"address", "bootstrap.json"} {
		files, _ := filepath.Glob(filepath.Join(dir, "c", "state", "io.containerd.runtime.v2.task", "*", "*", note))
		more, _ := filepath.Glob(filepath.Join(dir, "*", "c", "state", "io.containerd.runtime.v2.task", "*", "*", note))
		for _, f := range append(files, more...) {
			p, _ := os.ReadFile(f)
			if m := shimSocket.FindSubmatch(p); m != nil {
				sockets = append(sockets, string(m[1]))
			}
		}
	}
	return sockets
}

// until polls ready until it is true or ctx ends. Its interval is how late
// the end of a start may be seen.
func until(ctx context.Context, what string, ready func() bool) error {
	for !ready() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, context.Cause(ctx))
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}
