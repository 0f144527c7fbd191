// Command cases runs the tests and holds them to a list of cases.
//
//	cases run [-v] -o FILE go test ARGS...   run `go test -json ARGS`, print what go test prints, keep the events in FILE
//	cases check -list LIST FILE...           fail where a case of LIST has no passing test in FILEs, or a test was skipped
//
// A test proves the cases whose ids stand in its name or a subtest's, with or
// without the dash: TestCF01_HardLinkToSymlink, "RA-03 token expires". A case of LIST
// that begins with "Not here:" has no test, and check prints why.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	app := &cli.App{
		Name:  "cases",
		Usage: "run the tests and hold them to a list of cases",
		Commands: []*cli.Command{{
			Name:      "run",
			Usage:     "run `go test`, print what it prints and keep its events",
			ArgsUsage: "go test ARGS...",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "o", Usage: "`FILE` that takes the events", Required: true},
				&cli.BoolFlag{Name: "v", Usage: "print the output of tests that pass, too"},
			},
			Action: func(c *cli.Context) error { return run(c.Context, c.String("o"), c.Bool("v"), c.Args().Slice()) },
		}, {
			Name:      "check",
			Usage:     "fail where a case has no passing test or a test was skipped",
			ArgsUsage: "FILE...",
			Flags:     []cli.Flag{&cli.StringFlag{Name: "list", Usage: "Markdown table of cases", Value: "docs/cases.md"}},
			Action:    func(c *cli.Context) error { return check(c.App.Writer, c.String("list"), c.Args().Slice()) },
		}},
		ExitErrHandler: func(*cli.Context, error) {},
	}
	err := app.RunContext(ctx, os.Args)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit): // go test has said why
		os.Exit(max(1, exit.ExitCode()))
	case err != nil:
		fmt.Fprintln(os.Stderr, "cases:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, file string, verbose bool, argv []string) error {
	if len(argv) < 2 || argv[1] != "test" {
		return errors.New("run wants a `go test` command")
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	cmd := exec.CommandContext(ctx, argv[0], append([]string{"test", "-json"}, argv[2:]...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that tests clean up
	cmd.WaitDelay = time.Minute
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	printErr := newPrinter(os.Stdout, verbose).copy(io.TeeReader(out, f))
	if err := cmd.Wait(); err != nil {
		return err
	}
	return printErr
}

func check(w io.Writer, list string, files []string) error {
	cases, err := readList(list)
	if err != nil {
		return err
	}
	r := newResults()
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = r.read(f)
		f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return r.report(w, cases)
}
