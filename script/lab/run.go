package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Ready is the line that functions print when they are.
const Ready = "READY"

// Run runs the image's function and calls ready with each line that it
// prints, until that returns true. The function may take a little longer then
// to end; one that goes on serving is killed. What a container prints in its
// last moment can be lost on its way through shim and ctr, so for one that has
// ended well without such a line ready is called with READY, which is then late
// by the end of the container.
func (c *Containerd) Run(ctx context.Context, snapshotter, ref string, ready func(line string) bool) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	seen := false
	out, err := c.container(ctx, snapshotter, ref, nil, func(line string) {
		if !seen && ready(line) {
			seen = true
			const patience = 20 * time.Second
			time.AfterFunc(patience, func() { end(errServes) })
		}
	})
	if !seen && err == nil && !ready(Ready) {
		return fmt.Errorf("%s ended before it was ready: %s", ref, out)
	}
	if errors.Is(context.Cause(ctx), errServes) {
		return nil
	}
	return err
}

var errServes = errors.New("the function goes on serving")

// RunReady runs the image's function, which must print READY, to its end.
func (c *Containerd) RunReady(ctx context.Context, snapshotter, ref string) error {
	return c.Run(ctx, snapshotter, ref, func(line string) bool { return line == Ready })
}

// Exec runs argv in a new container of the image and returns what it prints.
func (c *Containerd) Exec(ctx context.Context, snapshotter, ref string, argv ...string) (string, error) {
	return c.container(ctx, snapshotter, ref, argv, func(string) {})
}

// container runs a new container to its end.
func (c *Containerd) container(ctx context.Context, snapshotter, ref string, argv []string, line func(string)) (string, error) {
	r, err := c.Attach(ctx, snapshotter, ref, argv...)
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for {
		text, err := r.Line()
		if err != nil {
			break // the end says more
		}
		all.WriteString(text + "\n")
		line(text)
	}
	if err := r.cmd.Wait(); err != nil {
		return all.String(), fmt.Errorf("run %s: %w: %s%s", ref, err, all.String(), r.complaint.String())
	}
	return all.String(), nil
}

// Running is a container whose standard input and output we have.
type Running struct {
	ID string

	containerd *Containerd
	cmd        *exec.Cmd
	in         io.WriteCloser
	out        *bufio.Reader
	complaint  strings.Builder // what it and ctr print to standard error
}

// Attach runs argv, or the image's own command, in a new container, which is
// removed at its end.
func (c *Containerd) Attach(ctx context.Context, snapshotter, ref string, argv ...string) (*Running, error) {
	r := &Running{ID: "f" + strconv.FormatInt(c.nextID.Add(1), 10) + "-" + c.host.name, containerd: c}
	args := c.args("run", "--rm", "--snapshotter", snapshotter,
		"--cgroup", "/"+string(c.host.group)+"/"+r.ID, "--runc-root", c.path("runc"), ref, r.ID)
	r.cmd = c.host.Command(ctx, c.release.program(c.host.lab.tools, "ctr"), append(args, argv...)...)
	r.cmd.Stderr = &r.complaint
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r.out = bufio.NewReader(out)
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return r, r.cmd.Start()
}

// Root is where the root file system of a running container is mounted.
func (c *Containerd) Root(r *Running) string {
	return c.path(filepath.Join("state", "io.containerd.runtime.v2.task", c.namespace, r.ID, "rootfs"))
}

// Line returns the next line that the container prints, io.EOF at its end.
func (r *Running) Line() (string, error) {
	text, err := r.out.ReadString('\n')
	if text != "" {
		err = nil
	}
	return strings.TrimSuffix(text, "\n"), err
}

// Say gives the container a line.
func (r *Running) Say(line string) error {
	_, err := io.WriteString(r.in, line+"\n")
	return err
}

// Wait waits for the container's end and discards what it still prints.
func (r *Running) Wait() error {
	_, _ = io.Copy(io.Discard, r.out) // its end is the pipe's
	if err := r.cmd.Wait(); err != nil {
		return fmt.Errorf("container %s: %w: %s", r.ID, err, r.complaint.String())
	}
	return nil
}

// Kill kills the container and waits for its end.
func (r *Running) Kill(ctx context.Context) error {
	if _, err := r.containerd.Ctr(ctx, "task", "kill", "--signal", "SIGKILL", r.ID); err != nil {
		return err
	}
	var exit *exec.ExitError
	if err := r.cmd.Wait(); !errors.As(err, &exit) { // it ends with the signal's number
		return err
	}
	return nil
}
