package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/micro"
	"github.com/faasnet/faasnet/script/lab"
)

// microWorker is this program, run again on a VM, which does the works that it
// reads from its standard input: the VM's cgroup counts what they cost, and
// nothing else is timed.
type microWorker struct {
	cmd       *exec.Cmd
	in        io.WriteCloser
	out       *bufio.Reader
	complaint strings.Builder
}

func newMicroWorker(ctx context.Context, host *lab.Host) (*microWorker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &microWorker{cmd: host.Command(ctx, self, microWorkName)}
	w.cmd.Stderr = &w.complaint
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.out = bufio.NewReader(out)
	return w, w.cmd.Start()
}

// do does a work in the file system mounted at root.
func (w *microWorker) do(name, root string) (d micro.Done, err error) {
	if _, err := fmt.Fprintln(w.in, name, root); err != nil {
		return d, err
	}
	line, err := w.out.ReadBytes('\n')
	if err != nil {
		return d, fmt.Errorf("%s ended: %w: %s", name, err, w.complaint.String())
	}
	return d, json.Unmarshal(line, &d)
}

// close ends the worker. Idempotent, and nothing on nil.
func (w *microWorker) close() error {
	if w == nil || w.cmd == nil {
		return nil
	}
	err := w.in.Close()
	if waitErr := w.cmd.Wait(); waitErr != nil && w.complaint.Len() > 0 {
		err = errors.Join(err, fmt.Errorf("worker: %w: %s", waitErr, w.complaint.String()))
	}
	w.cmd = nil
	return err
}

const microWorkName = "micro-work"

// microWorkCommand is what a microWorker runs.
func microWorkCommand() *cli.Command {
	return &cli.Command{
		Name: microWorkName, Hidden: true,
		Action: func(c *cli.Context) error { return serveWorks(c.Context, os.Stdin, c.App.Writer) },
	}
}

// serveWorks does what it reads until there is no more or something fails.
func serveWorks(ctx context.Context, in io.Reader, out io.Writer) error {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		name, root, _ := strings.Cut(lines.Text(), " ")
		w, err := micro.Find(name)
		if err != nil {
			return err
		}
		d, err := w.Do(ctx, root)
		if err != nil {
			return err
		}
		if err := json.NewEncoder(out).Encode(d); err != nil {
			return err
		}
	}
	return nil
}
