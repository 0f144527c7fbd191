// Command faasnet-tree is the coordinator of function trees: it knows which
// VMs are alive and tells each from whom to read. It never carries image data.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/cmd/internal/obs"
)

// revision is set by the linker.
var revision string

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args, os.Stdout, os.Stderr))
}

// run runs the command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := newApp(stdout, stderr).RunContext(ctx, args)
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "faasnet-tree: %v\n", err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "faasnet-tree: %v\n", err)
	return exitFailed
}

// usageError is an error in the command line or the configuration.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func newApp(stdout, stderr io.Writer) *cli.App {
	serve := serveCommand()
	app := &cli.App{
		Name:  "faasnet-tree",
		Usage: "coordinator of function trees: which VM reads from which",
		Description: `Without a command it serves, as the command "serve" does. VMs come to --listen,
schedulers and the commands "trees", "tree" and "watch" to --scheduler-listen,
which VMs must not be able to reach.`,
		Version:        obs.Version(revision),
		Writer:         stdout,
		ErrWriter:      stderr,
		Flags:          serve.Flags,
		Commands:       []*cli.Command{serve, treesCommand(), treeCommand(), watchCommand(), credentialCommand(), keyCommand()},
		OnUsageError:   onUsageError,
		ExitErrHandler: func(*cli.Context, error) {}, // run says it, once
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return usagef("no command %q, see faasnet-tree --help", c.Args().First())
			}
			return serve.Action(c)
		},
	}
	for _, c := range app.Commands {
		c.OnUsageError = onUsageError
		c.Before = noFlagsBefore
	}
	return app
}

func onUsageError(_ *cli.Context, err error, _ bool) error { return usageError{err} }

// noFlagsBefore refuses flags in front of a command, which would have no
// effect.
func noFlagsBefore(c *cli.Context) error {
	if given := c.Lineage()[1].LocalFlagNames(); len(given) > 0 {
		return usagef("flags of a command come after it: %s --%s", c.Command.Name, given[0])
	}
	return nil
}

// noArgs refuses arguments of a command that has none.
func noArgs(c *cli.Context) error {
	if c.NArg() > 0 {
		return usagef("unexpected argument %q", c.Args().First())
	}
	return nil
}
