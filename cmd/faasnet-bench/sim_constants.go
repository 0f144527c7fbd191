package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/cmd/internal/sim"
	"github.com/faasnet/faasnet/script/images"
)

// constants are what work costs on this machine: with them a world in virtual
// time knows how long a VM of two such cores computes.
type constants struct {
	Machine   machine             `json:"machine"`
	Costs     sim.Costs           `json:"costs"`
	Functions map[string]function `json:"functions"` // by image
}

// function is what one start of an image's function costs on a link that is not
// shaped. Medians of Reps starts.
type function struct {
	Image sim.Image `json:"image"`
	Reps  int       `json:"reps"`
	// Ours is a start with our daemon, Floor one of an image that is unpacked on
	// the VM's disk, each without what caches would spare it.
	Ours  sim.Start `json:"ours"`
	Floor sim.Start `json:"floor"`
	Serve float64   `json:"registry_s_per_byte"` // CPU seconds of the registry's process
	// Recorded is the image as a recorded conversion: what is read lies in its
	// start layer.
	Recorded sim.Image `json:"recorded"`
}

// constantsFile is where constants are kept.
func constantsFile() (string, error) {
	cache, err := images.Cache()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "results", "sim-constants.json"), nil
}

// constantsOf reads the constants of the image that --constants names, and
// measures what it lacks or what is another machine's.
func constantsOf(c *cli.Context, image string) (k constants, err error) {
	file := c.String("constants")
	if file == "" {
		if file, err = constantsFile(); err != nil {
			return k, err
		}
	}
	p, err := os.ReadFile(file)
	switch {
	case err == nil:
		if err := json.Unmarshal(p, &k); err != nil {
			return k, fmt.Errorf("%s: %w", file, err)
		}
	case !errors.Is(err, os.ErrNotExist):
		return k, err
	}
	here, err := thisMachine()
	if err != nil {
		return k, err
	}
	if known := k.Functions[image].Recorded.Blocks > 0; known && sameHardware(here, k.Machine) && !c.Bool("again") {
		return k, nil
	}
	if !sameHardware(here, k.Machine) || c.Bool("again") {
		k = constants{}
	}
	k.Machine = here
	return k, k.measure(c.Context, image, file)
}

// sameHardware tells whether figures are of a machine like this: the program may
// be another one.
func sameHardware(a, b machine) bool {
	return a.CPU == b.CPU && a.CPUs == b.CPUs && a.MemoryMB == b.MemoryMB
}

// measure measures what is missing for the image and keeps it.
func (k *constants) measure(ctx context.Context, image, file string) error {
	fmt.Fprintln(os.Stderr, "measuring what work costs on this machine, image", image)
	if k.Costs == (sim.Costs{}) {
		var err error
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
	p, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, append(p, '\n'), 0o644)
}

// print prints the constants of an image.
func (k *constants) print(w io.Writer, image string) error {
	f := k.Functions[image]
	fmt.Fprintf(w, "constants of this machine (%s), a VM has 2 such cores\n", k.Machine.CPU)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	blocks := func(i sim.Image) string { return fmt.Sprintf("%d of %.0f KB", i.Blocks, float64(i.Block)/1e3) }
	rate := func(s float64) string { return fmt.Sprintf("%.0f MB/s a core", 1/s/1e6) }
	phase := func(p sim.Phase) string { return fmt.Sprintf("%.2f s, %.2f CPU s", p.Wall, p.CPU) }
	for _, l := range [][2]string{
		{"receive, verify and store a block", rate(k.Costs.Receive)},
		{"relay a block to a VM", rate(k.Costs.Send)},
		{"decode a block", rate(k.Costs.Decode)},
		{"registry, for a byte that it serves", rate(f.Serve)},
		{"image " + image + ": pull with our daemon", phase(f.Ours.Pull)},
		{"    make the container", phase(f.Ours.Create) + "; floor " + phase(f.Floor.Create)},
		{"    run the function, image on disk", phase(f.Floor.Run)},
		{"    our part until READY, beyond blocks", fmt.Sprintf("%.2f CPU s", f.Ours.Serve)},
		{"    unpack the whole image", fmt.Sprintf("%.2f CPU s", f.Floor.Unpack)},
		{"    blocks that a start reads", blocks(f.Image)},
		{"    blocks that a recorded start reads", blocks(f.Recorded)},
	} {
		fmt.Fprintf(t, "  %s\t%s\n", l[0], l[1])
	}
	return t.Flush()
}
