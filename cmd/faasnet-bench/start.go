package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/rivals"
	"github.com/faasnet/faasnet/script/images"
	"github.com/faasnet/faasnet/script/lab"
)

// startRow is one start of a function on an empty VM: from the pull until it
// prints READY. Bytes are those that the registry's port sent until then, CPU
// seconds those of all processes of the VM, container included.
type startRow struct {
	System        string  `json:"system"`
	Recorded      bool    `json:"recorded,omitempty"` // the image is a recorded conversion
	Rep           int     `json:"rep"`
	VMs           int     `json:"vms"`
	Rate          string  `json:"rate"`
	Image         string  `json:"image"`
	Pull          float64 `json:"pull_s"`
	Ready         float64 `json:"ready_s"`
	RegistryBytes int64   `json:"registry_bytes"`
	PeerBytes     int64   `json:"peer_bytes"`
	CPU           float64 `json:"cpu_s"`
}

// snapshotter says how a system starts functions: the snapshotter's name, the
// tag of the image that it pulls, and whether it needs our daemon.
type snapshotter struct {
	name, tag string
	daemon    bool
}

var starters = map[string]snapshotter{
	"overlayfs": {"overlayfs", original, false},
	"faasnet":   {"faasnet", converted, true},
}

func startCommand() *cli.Command {
	return &cli.Command{
		Name:  "start",
		Usage: "start a function on an empty VM with each system, from the pull until it prints READY",
		Description: `Registry and VM are network namespaces whose links carry --rate both ways. A repetition has
a new VM with empty stores, its daemons are up and caches are dropped before the pull begins.
The configuration of each system is printed once.`,
		Flags: append(variantFlags(),
			&cli.StringFlag{Name: "image", Value: "b", Usage: "test `IMAGE`, or a reference"},
			&cli.StringFlag{Name: "rate", Value: "200mbit", Usage: "`RATE` of each link, as tc says it"},
			&cli.StringSliceFlag{Name: "systems", Value: cli.NewStringSlice("overlayfs", "faasnet"), Usage: "`SYSTEMS` to compare"},
			&cli.IntFlag{Name: "reps", Value: 5, Usage: "`NUMBER` of repetitions"},
			&cli.BoolFlag{Name: "background", Value: true, Usage: "let our daemon fetch what nobody reads, too, when it has nothing else to do"},
			&cli.StringFlag{Name: "json", Usage: "write results to `FILE`, after each start"},
		),
		Action: func(c *cli.Context) error {
			s := starts{
				site: site{image: c.String("image"), progress: os.Stderr},
				rate: c.String("rate"), systems: c.StringSlice("systems"), background: c.Bool("background"), told: map[string]bool{}, variants: variantsOf(c),
			}
			if err := checkImage(s.image); err != nil {
				return err
			}
			sums, err := s.measure(c.Context, c.Int("reps"), c.String("json"))
			if err != nil {
				return err
			}
			return printStarts(c.App.Writer, sums)
		},
	}
}

// starts measures starts of one image over one rate.
type starts struct {
	site
	rate       string
	systems    []string
	variants   variants
	background bool            // our daemon fetches what is not read, too
	told       map[string]bool // of which the configuration was printed
}

func (s *starts) measure(ctx context.Context, reps int, file string) (sums []startSummary, err error) {
	for _, name := range s.systems {
		how, ok := starters[name]
		if !ok {
			return nil, usagef("no system %q", name)
		}
		s.recorded = s.recorded || how.daemon && s.variants.recorded
	}
	out, err := newReport[startRow, startSummary](file)
	if err != nil {
		return nil, err
	}
	if s.bench, err = newBench(ctx); err != nil {
		return nil, err
	}
	defer s.close(&err)
	if err := s.prepare(ctx, s.rate); err != nil {
		return nil, err
	}
	for rep := range reps {
		for _, name := range s.systems {
			for _, recorded := range s.variants.of(starters[name].daemon) {
				row, err := s.once(ctx, name, recorded, rep)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", called(name, recorded), err)
				}
				fmt.Fprintf(s.progress, "%-17s  run %d: pulled after %6.2f s, READY after %6.2f s, %6.1f MB fetched, %5.2f CPU s\n",
					called(name, recorded), rep+1, row.Pull, row.Ready, float64(row.RegistryBytes)/1e6, row.CPU)
				if err := out.add(row, sumStarts); err != nil {
					return nil, err
				}
			}
		}
	}
	return out.Summary, nil
}

// once starts the function on a new VM.
func (s *starts) once(ctx context.Context, system string, recorded bool, rep int) (row startRow, err error) {
	how := starters[system]
	name := fmt.Sprintf("vm%d-%s", rep, system)
	if recorded {
		how.tag += rivals.Recorded
		name += "-r"
	}
	row = startRow{System: system, Recorded: recorded, Rep: rep, VMs: 1, Rate: s.rate, Image: s.image}
	link, err := s.hub.Link(s.rate)
	if err != nil {
		return row, err
	}
	vm, err := s.Host(name, link)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, vm.Close()) }()
	var daemon *lab.Daemon
	if how.daemon {
		if daemon, err = vm.Daemon(ctx, lab.DaemonConfig{HostsDir: s.hosts, NoBackground: !s.background, LogLevel: "info"}); err != nil {
			return row, err
		}
	}
	c, err := vm.Containerd(ctx, lab.Current, s.hosts, daemon)
	if err != nil {
		return row, err
	}
	if !s.told[system] {
		s.told[system] = true
		config, err := vm.Configuration()
		if err != nil {
			return row, err
		}
		fmt.Fprintf(s.progress, "--- configuration for %s\n%s---\n", system, config)
	}
	if err := dropCaches(); err != nil {
		return row, err
	}
	return row, s.time(ctx, &row, vm, c, how)
}

// time measures one start.
func (s *starts) time(ctx context.Context, row *startRow, vm *lab.Host, c *lab.Containerd, how snapshotter) error {
	ref := s.ref(how.tag)
	cpu, err := vm.CPU()
	if err != nil {
		return err
	}
	sent, err := s.origin.Sent()
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := c.Pull(ctx, how.name, ref); err != nil {
		return err
	}
	row.Pull = time.Since(begin).Seconds()
	var figures error
	err = c.Run(ctx, how.name, ref, func(line string) bool {
		if images.IsName(s.image) && line != lab.Ready {
			return false // any line of another image will do
		}
		row.Ready = time.Since(begin).Seconds()
		cpuAfter, cpuErr := vm.CPU()
		sentAfter, sentErr := s.origin.Sent()
		row.CPU, row.RegistryBytes = (cpuAfter - cpu).Seconds(), sentAfter-sent
		figures = errors.Join(cpuErr, sentErr)
		return true
	})
	return errors.Join(err, figures)
}
