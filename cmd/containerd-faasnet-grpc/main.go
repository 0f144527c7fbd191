// Command containerd-faasnet-grpc is the snapshotter as a proxy plugin of
// containerd: the snapshots service on a Unix socket.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/containerd/log"

	"github.com/faasnet/faasnet/cmd/internal/config"
	"github.com/faasnet/faasnet/cmd/internal/obs"
)

const program = "containerd-faasnet-grpc"

const (
	defaultAddress = "/run/" + program + "/" + program + ".sock"
	defaultConfig  = "/etc/" + program + "/config.toml"
	defaultRoot    = "/var/lib/" + program
)

// revision is set by the linker.
var revision string

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is main with its surroundings given; what it defers runs before the exit.
func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet(program, flag.ContinueOnError)
	flags.SetOutput(stderr)
	address := flags.String("address", defaultAddress, "Unix `socket` of the snapshots service")
	file := flags.String("config", defaultConfig, "configuration `file`")
	level := flags.String("log-level", "info", "trace, debug, info, warn or error")
	root := flags.String("root", defaultRoot, "`directory` of all state")
	version := flags.Bool("version", false, "print the version and exit")
	if err := flags.Parse(args); err != nil {
		return exitUsage
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "unexpected argument %q\n", flags.Arg(0))
		return exitUsage
	}
	if *version {
		fmt.Fprintln(stdout, obs.VersionLine(program, revision))
		return exitOK
	}
	cfg, err := config.Load(*file, !given(flags, "config"))
	if err == nil {
		err = obs.SetUpLog(*level, cfg.LogFormat)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	dir, err := filepath.Abs(*root)
	if err != nil || strings.ContainsAny(dir, `:,\`) { // overlayfs splits its options there
		fmt.Fprintf(stderr, "-root %q: a path without ':', ',' and '\\' is needed\n", *root)
		return exitUsage
	}
	if cfg.Registry.DockerConfig == "" {
		cfg.Registry.DockerConfig = dockerConfig()
	}
	if err := slacken(); err != nil { // not allowed everywhere
		log.L.WithError(err).Debug("timers are as exact as by default")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := serve(ctx, *address, dir, cfg); err != nil {
		log.G(ctx).WithError(err).Error("stopped")
		return exitFailed
	}
	return exitOK
}

// given tells whether a flag was on the command line.
func given(flags *flag.FlagSet, name string) (found bool) {
	flags.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// dockerConfig is the directory of Docker's configuration; "" when there is none.
func dockerConfig() string {
	if dir := os.Getenv("DOCKER_CONFIG"); dir != "" {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil { // a service without HOME
		return ""
	}
	return filepath.Join(home, ".docker")
}
