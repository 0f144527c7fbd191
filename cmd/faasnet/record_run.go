package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/image-spec/identity"

	"github.com/faasnet/faasnet/cmd/faasnet/internal/opens"
)

const (
	stopGrace = 10 * time.Second // between SIGTERM and SIGKILL
	tidyTime  = time.Minute      // for cleaning up, whatever happened
)

// recording is one run of an image.
type recording struct {
	client      *containerd.Client
	snapshotter string
	image       containerd.Image
	command     []string // instead of the image's; nil: the image's
	netHost     bool
	until       string // ""
	timeout     time.Duration
	stderr      io.Writer
	quiet       bool

	keepReadahead bool
}

// run runs the image's container and returns what it opened, in order.
func (r *recording) run(ctx context.Context) (_ []string, err error) {
	id := r.name("run")
	// Not cancelled half way: what is there must be known, to be removed.
	whole := context.WithoutCancel(ctx)
	c, err := r.client.NewContainer(whole, id,
		containerd.WithImage(r.image), containerd.WithSnapshotter(r.snapshotter), containerd.WithNewSnapshot(id, r.image),
		containerd.WithNewSpec(r.spec()...))
	if err != nil {
		return nil, fmt.Errorf("container: %w", err)
	}
	defer func() {
		tidy, cancel := context.WithTimeout(whole, tidyTime)
		defer cancel()
		if e := c.Delete(tidy, containerd.WithSnapshotCleanup); e != nil {
			err = errors.Join(err, fmt.Errorf("remove container: %w", e))
		}
	}()
	found := newFinder(r.until)
	out := io.Discard
	if !r.quiet {
		out = &locked{w: r.stderr}
	}
	task, err := c.NewTask(whole, cio.NewCreator(cio.WithStreams(nil, io.MultiWriter(found.stream(), out), io.MultiWriter(found.stream(), out))))
	if err != nil {
		return nil, fmt.Errorf("task: %w", err)
	}
	defer func() {
		tidy, cancel := context.WithTimeout(whole, tidyTime)
		defer cancel()
		if _, e := task.Delete(tidy, containerd.WithProcessKill); e != nil && !errdefs.IsNotFound(e) {
			err = errors.Join(err, fmt.Errorf("remove task: %w", e))
		}
	}()
	exited, err := task.Wait(ctx)
	if err != nil {
		return nil, fmt.Errorf("task: %w", err)
	}
	watch, err := opens.Start(fmt.Sprintf("/proc/%d/root", task.Pid()))
	if err != nil {
		return nil, fmt.Errorf("watch what is opened: %w", err)
	}
	runs := false
	if err = task.Start(ctx); err == nil {
		runs, err = r.wait(ctx, task, exited, found)
	}
	opened, watchErr := watch.Stop()
	if runs && err == nil {
		err = stop(ctx, task, exited)
	}
	return opened, errors.Join(err, watchErr)
}

// wait waits for what ends the recording, and says whether the container still
// runs.
func (r *recording) wait(ctx context.Context, task containerd.Task, exited <-chan containerd.ExitStatus, found *finder) (runs bool, err error) {
	timeout := time.NewTimer(r.timeout)
	defer timeout.Stop()
	select {
	case <-found.done:
		return true, nil
	case <-timeout.C:
		if r.until != "" {
			return true, fmt.Errorf("%q was not printed within %v: %w", r.until, r.timeout, context.DeadlineExceeded)
		}
		return true, nil
	case s := <-exited:
		return false, r.ended(ctx, task, s, found)
	case <-ctx.Done():
		return true, context.Cause(ctx)
	}
}

// stop lets the container end, if it does in time: the task's removal kills it.
func stop(ctx context.Context, task containerd.Task, exited <-chan containerd.ExitStatus) error {
	if err := task.Kill(ctx, syscall.SIGTERM); err != nil {
		if errdefs.IsNotFound(err) {
			return nil // it has just ended
		}
		return fmt.Errorf("stop: %w", err)
	}
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-exited:
	case <-grace.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// ended says what it means that the container ended by itself.
func (r *recording) ended(ctx context.Context, task containerd.Task, s containerd.ExitStatus, found *finder) error {
	code, _, err := s.Result()
	if err != nil {
		return err
	}
	if io := task.IO(); io != nil {
		io.Wait() // for the last that it printed
	}
	if r.until != "" && !found.isDone() {
		return fmt.Errorf("container ended with exit code %d before it printed %q: %w", code, r.until, errdefs.ErrFailedPrecondition)
	}
	if code != 0 {
		fmt.Fprintf(r.stderr, "faasnet: warning: container ended with exit code %d\n", code)
	}
	return ctx.Err()
}

func (r *recording) spec() []oci.SpecOpts {
	opts := []oci.SpecOpts{oci.WithDefaultSpec(), oci.WithDefaultUnixDevices, oci.WithImageConfig(r.image)}
	if len(r.command) > 0 {
		opts = append(opts, oci.WithProcessArgs(r.command...))
	}
	if r.netHost {
		opts = append(opts, oci.WithHostNamespace("network"), oci.WithHostHostsFile, oci.WithHostResolvconf)
	}
	return opts
}

// lower mounts the image without a container, with nothing to be written to its
// disks, and has little read ahead from them, for as long as f runs.
func (r *recording) lower(ctx context.Context, f func(root string) error) (err error) {
	diffIDs, err := r.image.RootFS(ctx)
	if err != nil {
		return err
	}
	sn, key := r.client.SnapshotService(r.snapshotter), r.name("view")
	mounts, err := sn.View(ctx, key, identity.ChainID(diffIDs).String())
	if err != nil {
		return fmt.Errorf("view: %w", err)
	}
	defer func() {
		tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTime)
		defer cancel()
		err = errors.Join(err, sn.Remove(tidy, key))
	}()
	dirs := lowerDirs(mounts)
	if err := flush(dirs); err != nil {
		return fmt.Errorf("write dirty pages: %w", err)
	}
	if !r.keepReadahead {
		restore, err := lessReadahead("/sys", dirs, func(disk string, kib int) {
			fmt.Fprintf(r.stderr, "faasnet: %s is %d instead of %d until the recording ends\n", disk, readahead, kib)
		})
		if err != nil {
			fmt.Fprintf(r.stderr, "faasnet: warning: large files may look more used than they are: readahead: %v\n", err)
		}
		defer func() { err = errors.Join(err, restore()) }()
	}
	var failed error // mount wraps it in words of its own
	err = mount.WithReadonlyTempMount(ctx, mounts, func(root string) error {
		failed = f(root)
		return nil
	})
	return errors.Join(failed, err)
}

// name is a new name for something in containerd.
func (*recording) name(what string) string { return "faasnet-record-" + what + "-" + rand.Text() }
