// Command faasnet-bench measures what converting images and starting functions
// costs, beside others on the same work, on one machine: registry and VMs are
// network namespaces on a bridge with shaped links.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/containerd/log"
	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"
)

// Exit codes.
const (
	exitError = 1
	exitUsage = 2
)

func main() {
	if err := log.SetLevel("error"); err != nil { // what containerd's code has to say
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	code := run(ctx, newApp(), os.Args, os.Stderr)
	stop()
	os.Exit(code)
}

// run runs the command line and returns the exit code.
func run(ctx context.Context, app *cli.App, args []string, stderr io.Writer) int {
	err := app.RunContext(ctx, args)
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "faasnet-bench:", err)
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitError
}

// usageError is an error in the command line.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// usage marks an error, if there is one, as one of the command line.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// newApp is the command line.
func newApp() *cli.App {
	app := &cli.App{
		Name:  "faasnet-bench",
		Usage: "measure conversion and start of functions, beside others on the same work",
		Commands: []*cli.Command{
			startCommand(),
			burstCommand(),
			compareCommand(),
			figureCommand(),
			relayCommand(),
			convertCommand(),
			demoCommand(),
			imagesCommand(),
			microCommand(),
			simCommand(),
			reportCommand(),
			smokeCommand(),

			// Those that others run as processes of their own.
			relayVMCommand(),
			microWorkCommand(),
			simWorldCommand(),
		},
		OnUsageError:   onUsageError,
		ExitErrHandler: func(*cli.Context, error) {}, // run says it, once
		Action:         anyCommand,
	}
	strict(app.Commands)
	return app
}

// anyCommand is what is done without a command, or with one that does not exist.
func anyCommand(c *cli.Context) error {
	if c.NArg() > 0 {
		return usagef("no command %q, see %s --help", c.Args().First(), c.App.HelpName)
	}
	if len(c.Command.Subcommands) > 0 && c.Command.Name != c.App.Name {
		return cli.ShowSubcommandHelp(c)
	}
	return cli.ShowAppHelp(c)
}

// strict refuses arguments of commands that have none: a forgotten -- must not
// become minutes of measuring something else. What is wrong with flags is said
// in one line, without all of the help.
func strict(commands []*cli.Command) {
	for _, c := range commands {
		strict(c.Subcommands)
		c.OnUsageError = onUsageError
		if len(c.Subcommands) > 0 {
			c.Action = anyCommand
		}
		if c.ArgsUsage == "" && len(c.Subcommands) == 0 && c.Before == nil {
			c.Before = func(c *cli.Context) error {
				if c.NArg() > 0 {
					return usagef("%s: unexpected argument %q", c.Command.Name, c.Args().First())
				}
				return nil
			}
		}
	}
}

func onUsageError(_ *cli.Context, err error, _ bool) error { return usageError{err} }
