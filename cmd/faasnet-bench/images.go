package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/script/images"
)

func imagesCommand() *cli.Command {
	return &cli.Command{
		Name:      "images",
		Usage:     "build test images as OCI layouts and print where they are",
		ArgsUsage: "[" + strings.Join(images.Names(), "|") + "]...",
		Action: func(c *cli.Context) error {
			names := c.Args().Slice()
			if len(names) == 0 {
				names = images.Names()
			}
			for _, name := range names {
				layout, err := buildImage(c.Context, name)
				if err != nil {
					return err
				}
				fmt.Fprintln(c.App.Writer, layout)
			}
			return nil
		},
	}
}

// buildImage returns the layout of a test image.
func buildImage(ctx context.Context, name string) (layout string, err error) {
	cache, err := images.Cache()
	if err != nil {
		return "", err
	}
	return images.Build(ctx, cache, name, os.Stderr)
}
