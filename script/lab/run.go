package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Ready is the line that functions print when they are.
const Ready = "READY"

// Run runs the image's function and calls ready with each line that it
// prints, until that returns true. The function may take a little longer then
// to end; one that goes on serving is killed.
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
	if !seen && err == nil {
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
	id := "f" + strconv.FormatInt(c.nextID.Add(1), 10) + "-" + c.host.name
	args := c.args("run", "--rm", "--snapshotter", snapshotter,
		"--cgroup", "/"+string(c.host.group)+"/"+id, "--runc-root", c.path("runc"), ref, id)
	cmd := c.host.Command(ctx, c.release.program(c.host.lab.tools, "ctr"), append(args, argv...)...)
	var complaint, all strings.Builder
	cmd.Stderr = &complaint
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	in := bufio.NewReader(stdout)
	for err == nil {
		var text string
		text, err = in.ReadString('\n')
		all.WriteString(text)
		if text != "" {
			line(strings.TrimSuffix(text, "\n"))
		}
	}
	if err := cmd.Wait(); err != nil {
		return all.String(), fmt.Errorf("run %s: %w: %s%s", ref, err, all.String(), complaint.String())
	}
	return all.String(), nil
}
