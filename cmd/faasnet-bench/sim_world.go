package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/cmd/internal/sim"
)

const simWorldName = "sim-world"

// simWorldCommand is what simulate runs: a world in virtual time, which only a
// test has, ends the process that it is in.
func simWorldCommand() *cli.Command {
	return &cli.Command{
		Name: simWorldName, Hidden: true,
		Action: func(*cli.Context) error {
			var b sim.Burst
			if err := json.NewDecoder(os.Stdin).Decode(&b); err != nil {
				return err
			}
			answer := os.NewFile(3, "answer")
			sim.Main(func(t *testing.T) {
				t.Helper()
				if err := json.NewEncoder(answer).Encode(b.Run(t)); err != nil {
					t.Error(err)
				}
			})
			return nil
		},
	}
}

// simulate lives through a burst in virtual time, in a process of its own.
func simulate(ctx context.Context, b sim.Burst) (f sim.Figures, err error) {
	self, err := os.Executable()
	if err != nil {
		return f, err
	}
	spec, err := json.Marshal(b)
	if err != nil {
		return f, err
	}
	answer, theirs, err := os.Pipe()
	if err != nil {
		return f, err
	}
	defer answer.Close()
	defer theirs.Close()
	cmd := exec.CommandContext(ctx, self, simWorldName)
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	var words bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = bytes.NewReader(spec), &words, &words, []*os.File{theirs}
	if err := cmd.Start(); err != nil {
		return f, err
	}
	theirs.Close()
	readErr := json.NewDecoder(answer).Decode(&f)
	if err := cmd.Wait(); err != nil {
		return f, fmt.Errorf("%v: %w: %s", b, err, words.String())
	}
	return f, readErr
}
