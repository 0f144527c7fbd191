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
	return &cli.App{
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
	}
}
