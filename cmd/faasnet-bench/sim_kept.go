package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/cmd/internal/sim"
	"github.com/faasnet/faasnet/script/images"
)

// constantsFile is where constants are kept.
func constantsFile() (string, error) {
	cache, err := images.Cache()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "results", "sim-constants.json"), nil
}

// constantsFlags are those of all that computes with constants.
func constantsFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "constants", Usage: "`FILE` that keeps what work costs (default: results/sim-constants.json beside the test images)"},
		&cli.BoolFlag{Name: "again", Usage: "measure again what work costs"},
	}
}

// constantsOf returns the constants that are kept, and measures what they lack of
// the image.
func constantsOf(c *cli.Context, image string) (k constants, err error) {
	file := c.String("constants")
	if file == "" {
		if file, err = constantsFile(); err != nil {
			return k, err
		}
	}
	if k, err = keptConstants(c, file); err != nil || k.Functions[image].Recorded.Blocks > 0 {
		return k, err
	}
	return k, k.measure(c.Context, image, file)
}

// keptConstants reads the file, and nothing where there is none, where it is
// another machine's, and with --again: but that only once, since from then on what
// is kept is of this run.
func keptConstants(c *cli.Context, file string) (k constants, err error) {
	here, err := thisMachine()
	if err != nil {
		return k, err
	}
	if c.Bool("again") {
		return k, c.Set("again", "false")
	}
	if err := readJSON(file, &k); err != nil && !errors.Is(err, os.ErrNotExist) {
		return k, err
	}
	if !sameHardware(here, k.Machine) {
		return constants{}, nil
	}
	return k, nil
}

// sameHardware tells whether figures are of a machine like this: the program may
// be another one.
func sameHardware(a, b machine) bool {
	return a.CPU == b.CPU && a.CPUs == b.CPUs && a.MemoryMB == b.MemoryMB
}

// measure measures what is missing for the image and keeps it.
func (k *constants) measure(ctx context.Context, image, file string) error {
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = writable("constants", file)
	}
	if err == nil {
		k.Machine, err = thisMachine()
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "measuring what work costs on this machine, image", image)
	if k.Costs == (sim.Costs{}) {
		if k.Costs, err = measureCosts(ctx); err != nil {
			return err
		}
	}
	f, err := measureFunction(ctx, image, k.Costs)
	if err != nil {
		return err
	}
	if k.Functions == nil {
		k.Functions = map[string]function{}
	}
	k.Functions[image] = f
	return writeJSON(file, k)
}
