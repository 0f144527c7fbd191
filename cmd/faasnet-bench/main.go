// Command faasnet-bench measures what converting images and starting functions
// costs, beside others on the same work, on one machine: registry and VMs are
// network namespaces on a bridge with shaped links.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/containerd/log"
	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"
)

func main() {
	if err := log.SetLevel("error"); err != nil { // what containerd's code has to say
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	if err := newApp().RunContext(ctx, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "faasnet-bench:", err)
		stop()
		os.Exit(1)
	}
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
		ExitErrHandler: func(*cli.Context, error) {},
		Action:         anyCommand,
	}
	strict(app.Commands)
	return app
}

// anyCommand is what is done without a command, or with one that does not exist.
func anyCommand(c *cli.Context) error {
	if c.NArg() > 0 {
		return fmt.Errorf("no command %q, see %s --help", c.Args().First(), c.App.HelpName)
	}
	return cli.ShowAppHelp(c)
}

// strict refuses arguments of commands that have none: a forgotten -- must not
// become minutes of measuring something else.
func strict(commands []*cli.Command) {
	for _, c := range commands {
		strict(c.Subcommands)
		if c.ArgsUsage == "" && len(c.Subcommands) == 0 && c.Before == nil {
			c.Before = func(c *cli.Context) error {
				if c.NArg() > 0 {
					return fmt.Errorf("%s: unexpected argument %q", c.Command.Name, c.Args().First())
				}
				return nil
			}
		}
	}
}
