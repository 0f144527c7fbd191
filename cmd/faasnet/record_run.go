package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/containerd/errdefs"

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
	runtime       string // directory for what must not be forgotten
	me            process

	how    string   // what ended the recording, afterwards
	left   []string // what could not be removed
	untidy error    // why
}

// tidy removes something, whatever happened, or notes that it is left.
func (r *recording) tidy(ctx context.Context, what string, remove func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTime)
	defer cancel()
	if err := remove(ctx); err != nil && !errdefs.IsNotFound(err) {
		r.left = append(r.left, what)
		r.untidy = errors.Join(r.untidy, fmt.Errorf("remove %s: %w", what, err))
	}
}

// run runs the image's container and returns what it opened, in order.
func (r *recording) run(ctx context.Context) ([]string, error) {
	id := r.me.name("run")
	// Not cancelled half way: what is there must be known, to be removed.
	whole := context.WithoutCancel(ctx)
	c, err := r.client.NewContainer(whole, id,
		containerd.WithImage(r.image), containerd.WithSnapshotter(r.snapshotter), containerd.WithNewSnapshot(id, r.image),
		containerd.WithNewSpec(r.spec()...))
	if err != nil {
		return nil, fmt.Errorf("container: %w", err)
	}
	defer r.tidy(ctx, "container "+id, func(ctx context.Context) error { return c.Delete(ctx, containerd.WithSnapshotCleanup) })
	found := newFinder(r.until)
	out := io.Discard
	if !r.quiet {
		out = &shown{w: r.stderr}
	}
	task, err := c.NewTask(whole, cio.NewCreator(cio.WithStreams(nil, io.MultiWriter(found.stream(), out), io.MultiWriter(found.stream(), out))))
	if err != nil {
		return nil, fmt.Errorf("task: %w", err)
	}
	defer r.tidy(ctx, "its task", func(ctx context.Context) error {
		_, err := task.Delete(ctx, containerd.WithProcessKill)
		return err
	})
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
		r.how = fmt.Sprintf("it printed %q", r.until)
		return true, nil
	case <-timeout.C:
		if r.until != "" {
			return true, fmt.Errorf("%q was not printed within %v: %w", r.until, r.timeout, context.DeadlineExceeded)
		}
		r.how = fmt.Sprintf("the timeout of %v was over", r.timeout)
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

// ended says what it means that the container ended by itself: what has failed
// is no start.
func (r *recording) ended(ctx context.Context, task containerd.Task, s containerd.ExitStatus, found *finder) error {
	code, _, err := s.Result()
	if err != nil {
		return fmt.Errorf("task: %w", err)
	}
	if io := task.IO(); io != nil {
		io.Wait() // for the last that it printed
	}
	switch {
	case found.isDone():
		r.how = fmt.Sprintf("it printed %q and ended with exit code %d", r.until, code)
	case r.until != "":
		return fmt.Errorf("container ended with exit code %d before it printed %q: %w", code, r.until, errdefs.ErrFailedPrecondition)
	case code != 0:
		return fmt.Errorf("container ended with exit code %d: %w", code, errdefs.ErrFailedPrecondition)
	default:
		r.how = "it ended by itself"
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
