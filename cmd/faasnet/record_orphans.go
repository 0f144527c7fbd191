package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/errdefs"
)

// sweep removes what recordings have left whose process was killed: containers
// with their tasks, what the leases of the namespace hold, mounts, and a low
// readahead. What cannot be removed is a warning: it keeps nobody from recording.
func (r *recording) sweep(ctx context.Context) {
	warn := func(what string, err error) {
		if err == nil {
			fmt.Fprintf(r.stderr, "faasnet: removed %s, which a recording that was killed has left\n", what)
		} else {
			fmt.Fprintf(r.stderr, "faasnet: warning: %s, which a recording that was killed has left, cannot be removed: %s\n", what, oneLine(err))
		}
	}
	containers, err := r.client.Containers(ctx)
	if err != nil {
		warn("containers", err)
	}
	for _, c := range containers {
		if isOrphan(c.ID()) {
			warn("container "+c.ID(), removeContainer(ctx, c))
		}
	}
	r.sweepRuntime(warn)
	ls, err := r.client.LeasesService().List(ctx)
	if err != nil {
		warn("leases", err)
	}
	for _, l := range ls {
		if isOrphan(l.ID) { // with it goes the snapshot that was mounted
			warn("lease "+l.ID, r.client.LeasesService().Delete(ctx, l, leases.SynchronousDelete))
		}
	}
}

func removeContainer(ctx context.Context, c containerd.Container) error {
	ctx, cancel := context.WithTimeout(ctx, tidyTime)
	defer cancel()
	task, err := c.Task(ctx, cio.Load)
	if err == nil {
		_, err = task.Delete(ctx, containerd.WithProcessKill)
	}
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("task: %w", err)
	}
	return c.Delete(ctx, containerd.WithSnapshotCleanup)
}

// sweepRuntime does so for the runtime directory.
func (r *recording) sweepRuntime(warn func(what string, err error)) {
	entries, err := os.ReadDir(r.runtime)
	if err != nil {
		warn(r.runtime, err)
	}
	for _, e := range entries {
		if isOrphan(e.Name()) {
			d := runtimeDir(filepath.Join(r.runtime, e.Name()))
			warn(string(d), errors.Join(restoreReadahead("/sys", d.readahead()), d.remove()))
		}
	}
}

// runtimeDir is what a recording must not forget, even if it is killed: a
// directory with what the readahead was and with the mounted image.
type runtimeDir string

func (d runtimeDir) readahead() string { return filepath.Join(string(d), "readahead") }
func (d runtimeDir) root() string      { return filepath.Join(string(d), "root") }

func (d runtimeDir) create() error {
	if err := os.Mkdir(string(d), 0o700); err != nil {
		return err
	}
	return os.Mkdir(d.root(), 0o700)
}

// remove unmounts the image and removes the directory, if it is there: nothing
// below a mount, and not if the readahead could not be restored, which removes its
// file.
func (d runtimeDir) remove() error {
	if err := mount.UnmountAll(d.root(), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("unmount %s: %w", d.root(), err)
	}
	for _, name := range []string{d.root(), string(d)} {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
