package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/convert/endpoint"
)

func recordCommand() *cli.Command {
	return &cli.Command{
		Name:      "record",
		Usage:     "run an image once and write down which files its start opens",
		ArgsUsage: "IMAGE [COMMAND [ARG...]]",
		Description: `Runs IMAGE, which containerd must have, in a new container and writes to --out the files of
the image that are opened, in that order, for faasnet convert --record-in. COMMAND is run
instead of the image's entrypoint and command. What the container prints goes to standard
error.

The recording ends when the container prints --until, when it ends, or at --timeout. A
container that still runs then gets SIGTERM, and SIGKILL 10 seconds later. It is an error if it
does not print --until, or without --until if it ends with an exit code other than 0. Container
and snapshot are removed in any case, and a failed command leaves --out as it was. The record is
of the format that ctr-remote and nerdctl write for eStargz.

Needs root. How much of each large file is read is recorded, too. For that dirty pages of the
disks that have the image are written and its large files dropped from the page cache, and
while the container runs the readahead of these disks is at most 128 KiB, for all of the
machine. What it was is printed if that was more, and restored however the command ends. If it
is killed (SIGKILL, or a second signal), the next faasnet record in the same namespace restores
it and removes what the killed one has left. --keep-readahead leaves the readahead alone; large
files may look more used then than they are. Recordings with one --runtime-dir run one after
the other; waiting for another one does not count towards --timeout.`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "write the record to `FILE`, which is needed; -: to standard output"},
			&cli.StringFlag{Name: "snapshotter", Usage: "`NAME` of the snapshotter to run with", Value: "overlayfs", EnvVars: []string{"CONTAINERD_SNAPSHOTTER"}},
			&cli.StringFlag{Name: "until", Usage: "end when the container prints `TEXT`; it is an error if it does not"},
			&cli.DurationFlag{Name: "timeout", Usage: "end after `DURATION`", Value: time.Minute},
			&cli.BoolFlag{Name: "net-host", Usage: "run in the network of this machine; the default is one without interfaces"},
			&cli.BoolFlag{Name: "keep-readahead", Usage: "do not lower the readahead of the disks that have the image"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "do not show what the container prints"},
			&cli.StringFlag{Name: "runtime-dir", Usage: "`DIR` for the mounted image and for what the readahead was; one recording at a time uses it", Value: "/run/faasnet", EnvVars: []string{"FAASNET_RUNTIME_DIR"}},
		}, containerdFlags()...),
		Action: func(c *cli.Context) error {
			if err := checkRecord(c); err != nil {
				return err
			}
			return runRecord(c)
		},
	}
}

// checkRecord says what is wrong with the command line.
func checkRecord(c *cli.Context) error {
	switch args := c.Args().Slice(); {
	case len(args) == 0:
		return usagef("record: want %s", c.Command.ArgsUsage)
	case strings.HasPrefix(args[0], "-") || len(args) > 1 && strings.HasPrefix(args[1], "-"):
		return usagef("record: options go before IMAGE, and no command begins with -: %q", args)
	case c.String("out") == "":
		return usagef("record: --out is missing; options go before IMAGE")
	case c.IsSet("until") && c.String("until") == "":
		return usagef("record: --until is empty")
	case c.Duration("timeout") <= 0:
		return usagef("record: --timeout %v: want more than 0", c.Duration("timeout"))
	}
	return nil
}

func runRecord(c *cli.Context) error {
	ns, err := names(c.Args().First())
	if err != nil {
		return err
	}
	if k := ns[0].Kind; k != endpoint.Registry && k != endpoint.Containerd {
		return usagef("record: %v is not an image in containerd", ns[0])
	}
	if err := mayRecord(); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	toStdout := c.String("out") == "-"
	if !toStdout {
		if err := endpoint.CheckReplace(c.String("out")); err != nil {
			return fmt.Errorf("record: --out %w", err)
		}
	}
	r := recording{
		snapshotter: c.String("snapshotter"), command: c.Args().Tail(), netHost: c.Bool("net-host"),
		until: c.String("until"), timeout: c.Duration("timeout"), stderr: c.App.ErrWriter, quiet: c.Bool("quiet"),
		keepReadahead: c.Bool("keep-readahead"), runtime: c.String("runtime-dir"),
	}
	if r.me, err = thisProcess(); err != nil {
		return err
	}
	if r.client, err = containerd.New(c.String("address"), containerd.WithDefaultNamespace(c.String("namespace"))); err != nil {
		return fmt.Errorf("containerd at %s: %w", c.String("address"), err)
	}
	defer r.client.Close()
	record, err := r.record(namespaces.WithNamespace(c.Context, c.String("namespace")), ns[0].Ref)
	if err := r.failed(err); err != nil {
		if c.Context.Err() != nil && len(r.left) > 0 { // the error is not shown
			fmt.Fprintf(c.App.ErrWriter, "faasnet: warning: %s\n", oneLine(err))
		}
		return fmt.Errorf("record %s: %w", ns[0].Ref, err)
	}
	summary := fmt.Sprintf("%s\n%s; the recording ended when %s\n", c.String("out"), count(len(record), "file"), r.how)
	if toStdout {
		if err := record.Write(c.App.Writer); err != nil {
			return err
		}
		_, err = io.WriteString(c.App.ErrWriter, summary)
		return err
	}
	if err := endpoint.Replace(c.String("out"), record.Write); err != nil {
		return fmt.Errorf("record: --out %w", err)
	}
	_, err = io.WriteString(c.App.Writer, summary)
	return err
}

// failed is the error of a recording that ended with err, with what is left of it.
func (r *recording) failed(err error) error {
	if err == nil {
		err = r.untidy
	}
	if len(r.left) > 0 {
		err = fmt.Errorf("%w; left are %s: the next faasnet record in this namespace removes them", err, strings.Join(r.left, ", "))
	}
	return err
}
