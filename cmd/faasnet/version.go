package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/cmd/internal/obs"
	"github.com/faasnet/faasnet/fs/layer"
)

// revision is set by the linker.
var revision string

func versionCommand() *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "print the version of this program and of the image format it writes",
		Action: func(c *cli.Context) error {
			fmt.Fprintf(c.App.Writer, "%s, image format %d\n", obs.VersionLine("faasnet", revision), layer.Version)
			return nil
		},
	}
}
