// Command faasnet converts container images to the format that VMs mount
// lazily, looks into converted images, verifies them, records what images open
// when they start, and pulls converted ones with versions of containerd that do
// not hand the image's name to a snapshotter.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/containerd/log"
	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/cmd/internal/obs"
)

// Exit codes. An interrupted command ends with 128 and the signal's number, as
// a shell says it.
const (
	exitError = 1
	exitUsage = 2
)

func main() {
	os.Exit(run(os.Args, os.Stdout, os.Stderr))
}

// run runs the command line and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signal.Notify(signals, syscall.SIGHUP)
	}
	defer signal.Stop(signals)
	// A closed pipe is an error of a write and must not end the process before
	// it has cleaned up.
	signal.Ignore(syscall.SIGPIPE)
	go func() {
		select {
		case s := <-signals:
			cancel(interrupted{s.(syscall.Signal)})
			signal.Stop(signals) // a second one ends the process at once
		case <-ctx.Done():
		}
	}()
	err := newApp(stdout, stderr).RunContext(ctx, args)
	if err == nil {
		return 0
	}
	var stopped interrupted
	if errors.As(context.Cause(ctx), &stopped) {
		fmt.Fprintf(stderr, "faasnet: %v\n", stopped)
		return 128 + int(stopped.signal)
	}
	fmt.Fprintf(stderr, "faasnet: %s\n", oneLine(err))
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitError
}

// oneLine is the text of an error, which may be of several, in one line.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(c rune) bool { return c == '\n' }), "; ")
}

// interrupted is why the context of a command ended.
type interrupted struct{ signal syscall.Signal }

func (i interrupted) Error() string { return "interrupted: " + i.signal.String() }

// usageError is an error in the command line.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// misplaced is a hint for a command line with a flag where no flag is one.
func misplaced(c *cli.Context) string {
	for _, a := range c.Args().Slice() {
		if len(a) > 1 && a[0] == '-' {
			return "; options go before them: " + a
		}
	}
	return ""
}

func newApp(stdout, stderr io.Writer) *cli.App {
	app := &cli.App{
		Name:      "faasnet",
		Usage:     "convert, inspect, verify, record and pull lazily loaded container images",
		Version:   obs.Version(revision),
		Writer:    stdout,
		ErrWriter: stderr,
		Commands:  []*cli.Command{convertCommand(), inspectCommand(), verifyCommand(), recordCommand(), pullCommand(), versionCommand()},
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "log-level", Value: "error", Usage: "write log messages of this `LEVEL` and above to standard error: debug, info, warn or error", EnvVars: []string{"FAASNET_LOG_LEVEL"}},
		},
		Before: func(c *cli.Context) error {
			if err := log.SetLevel(c.String("log-level")); err != nil {
				return usageError{err}
			}
			return nil
		},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return usagef("no command %q, see faasnet --help", c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
		OnUsageError:   onUsageError,
		ExitErrHandler: func(*cli.Context, error) {}, // run says it, once
	}
	quietUsage(app.Commands)
	return app
}

// quietUsage makes commands say what is wrong with their flags in one line,
// without all of their help.
func quietUsage(commands []*cli.Command) {
	for _, c := range commands {
		c.OnUsageError = onUsageError
		quietUsage(c.Subcommands)
	}
}

func onUsageError(_ *cli.Context, err error, _ bool) error { return usageError{err} }
