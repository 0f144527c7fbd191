package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/cmd/internal/sim"
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

// constantsRow is what --json has of an image.
type constantsRow struct {
	Image    string    `json:"image"`
	Costs    sim.Costs `json:"costs"`
	Function function  `json:"function"`
}

func simConstantsCommand() *cli.Command {
	return &cli.Command{
		Name:  "constants",
		Usage: "measure what work costs on this machine, and keep it for the other figures",
		Flags: append(constantsFlags(),
			&cli.StringSliceFlag{Name: "image", Value: cli.NewStringSlice("b", "c"), Usage: "test `IMAGES`"},
			jsonFlag(),
		),
		Action: func(c *cli.Context) error {
			out, err := newReport[constantsRow, constantsRow](c.String("json"))
			if err != nil {
				return err
			}
			for _, image := range c.StringSlice("image") {
				k, err := constantsOf(c, image)
				if err != nil {
					return err
				}
				if err := k.print(c.App.Writer, image); err != nil {
					return err
				}
				if err := k.report(image, out); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// report adds the constants of an image to results, whose machine is the one that
// measured them, and not perhaps a later program.
func (k *constants) report(image string, out *report[constantsRow, constantsRow]) error {
	out.Machine = k.Machine
	return out.add(constantsRow{image, k.Costs, k.Functions[image]}, func(all []constantsRow) []constantsRow { return all })
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
