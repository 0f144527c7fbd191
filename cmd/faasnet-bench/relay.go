package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/wires"
)

// relayRow is one relay: a VM reads blocks from one above it, passes them on to
// two below it and reads them itself. CPU seconds are those of that VM.
type relayRow struct {
	Protocol string  `json:"protocol"`
	Rep      int     `json:"rep"`
	Rate     string  `json:"rate"`
	Bytes    int64   `json:"bytes"`         // of the layer
	Relayed  int64   `json:"relayed_bytes"` // of blocks, to both
	Sent     int64   `json:"sent_bytes"`    // by its port of the bridge
	Seconds  float64 `json:"seconds"`       // till both had all
	Read     float64 `json:"read_s"`        // till it had read all itself
	CPU      float64 `json:"cpu_s"`
	Alone    float64 `json:"alone_cpu_s"`  // CPU seconds when nobody is below it
	Stored   float64 `json:"stored_cpu_s"` // of a VM that has stored all blocks and gives them to one other
}

// relaySummary has medians over repetitions. CPUPerGiB is all that the VM in the
// middle spends, Passing what it spends beyond reading the same for itself.
type relaySummary struct {
	Protocol  string  `json:"protocol"`
	Rate      string  `json:"rate"`
	Bits      float64 `json:"relayed_bits_s"`
	OfLink    float64 `json:"of_link"` // relayed bits of the link's rate
	CPUPerGiB float64 `json:"cpu_s_per_gib"`
	Passing   float64 `json:"passing_cpu_s_per_gib"`
	Read      float64 `json:"read_s"`
	Stored    float64 `json:"stored_cpu_s_per_gib"`
}

func relayCommand() *cli.Command {
	return &cli.Command{
		Name:  "relay",
		Usage: "relay blocks from one VM to two others over our protocol, gRPC and net/http",
		Description: `Four VMs are network namespaces whose links carry --rate both ways: one has all blocks, one reads
them from it, as its container wants them, and two get them through that one. Fetcher and store
are the same for every protocol: blocks are verified, stored, and passed on while they arrive.
CPU seconds are those of the VM in the middle, with its own reading and, by a second run without
the two, without it. The last column is what a VM spends that has stored all blocks and gives
them to one other VM.`,
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "protocols", Value: cli.NewStringSlice(wires.Protocols()...), Usage: "`PROTOCOLS` to compare"},
			&cli.StringFlag{Name: "rate", Value: "1gbit", Usage: "`RATE` of each link, as tc says it"},
			&cli.IntFlag{Name: "size", Value: 512, Usage: "`MiB` that each VM gets"},
			&cli.IntFlag{Name: "reps", Value: 3, Usage: "`NUMBER` of repetitions"},
			&cli.StringFlag{Name: "json", Usage: "write results to `FILE`, after each relay"},
		},
		Action: func(c *cli.Context) error {
			r := relays{rate: c.String("rate"), blocks: 2 * c.Int("size")}
			sums, err := r.measure(c.Context, c.StringSlice("protocols"), c.Int("reps"), c.String("json"))
			if err != nil {
				return err
			}
			return printRelays(c.App.Writer, sums)
		},
	}
}

// relays measures relays of one size over one rate.
type relays struct {
	*bench
	rate   string
	blocks int
}

func (r *relays) measure(ctx context.Context, protocols []string, reps int, file string) (sums []relaySummary, err error) {
	for _, p := range protocols {
		if !slices.Contains(wires.Protocols(), p) {
			return nil, usagef("no protocol %q", p)
		}
	}
	if _, err := parseRate(r.rate); err != nil {
		return nil, err
	}
	const most = 8 << 10
	if r.blocks < 2 || r.blocks > most {
		return nil, usagef("--size %d: not 1 to %d", r.blocks/2, most/2)
	}
	out, err := newReport[relayRow, relaySummary](file)
	if err != nil {
		return nil, err
	}
	if r.bench, err = newBench(ctx); err != nil {
		return nil, err
	}
	defer r.close(&err)
	for rep := range reps {
		for _, p := range protocols {
			alone, err := r.once(ctx, p)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p, err)
			}
			row, err := r.once(ctx, p, "left", "right")
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p, err)
			}
			row.Rep, row.Alone, row.Stored = rep, alone.CPU, alone.Stored
			fmt.Fprintf(os.Stderr, "rep %d %-8s %.2f s, %.0f Mbit/s to two VMs, %.2f CPU s\n", rep, p, row.Seconds, float64(row.Relayed)*8/row.Seconds/1e6, row.CPU)
			if err := out.add(row, sumRelays); err != nil {
				return nil, err
			}
		}
	}
	return out.Summary, nil
}

// once relays all blocks once, between new VMs: one on top, one in the middle,
// and those below it.
func (r *relays) once(ctx context.Context, protocol string, below ...string) (row relayRow, err error) {
	row = relayRow{Protocol: protocol, Rate: r.rate}
	hub, err := r.Hub()
	if err != nil {
		return row, err
	}
	var vms []*relayVM
	defer func() {
		for _, vm := range vms {
			err = errors.Join(err, vm.close())
		}
		err = errors.Join(err, hub.Close())
	}()
	for i, name := range append([]string{"top", "relay"}, below...) { // each serves before those below it are made
		vm, err := r.newRelayVM(ctx, hub, protocol, name, vms[:min(i, 2)])
		if vm != nil {
			vms = append(vms, vm)
		}
		if err != nil {
			return row, err
		}
	}
	top, relay := vms[0], vms[1]
	gave, gaveErr := top.host.CPU()
	cpu, cpuErr := relay.host.CPU()
	sent, sentErr := relay.net.Sent()
	if err := errors.Join(gaveErr, cpuErr, sentErr); err != nil {
		return row, err
	}
	begin := time.Now()
	var g errgroup.Group
	g.Go(func() (err error) {
		row.Bytes, err = relay.do("read")
		row.Read = time.Since(begin).Seconds()
		return err
	})
	for _, vm := range vms[2:] {
		g.Go(func() error {
			_, err := vm.do("gather")
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return row, err
	}
	row.Seconds = time.Since(begin).Seconds()
	row.Relayed = row.Bytes * int64(len(below))
	gaveAfter, gaveErr := top.host.CPU()
	cpuAfter, cpuErr := relay.host.CPU()
	sentAfter, sentErr := relay.net.Sent()
	row.CPU, row.Sent = (cpuAfter - cpu).Seconds(), sentAfter-sent
	row.Stored = (gaveAfter - gave).Seconds()
	return row, errors.Join(gaveErr, cpuErr, sentErr)
}

func sumRelays(rows []relayRow) (out []relaySummary) {
	protocols, groups := by(rows, func(r relayRow) string { return r.Protocol })
	for _, p := range protocols {
		g := groups[p]
		gib := func(r relayRow) float64 { return float64(r.Relayed) / (1 << 30) }
		sum := relaySummary{
			Protocol: p, Rate: g[0].Rate,
			Bits:      median(column(g, func(r relayRow) float64 { return float64(r.Relayed) * 8 / r.Seconds })),
			CPUPerGiB: median(column(g, func(r relayRow) float64 { return r.CPU / gib(r) })),
			Passing:   median(column(g, func(r relayRow) float64 { return (r.CPU - r.Alone) / gib(r) })),
			Read:      median(column(g, func(r relayRow) float64 { return r.Read })),
			Stored:    median(column(g, func(r relayRow) float64 { return r.Stored / (float64(r.Bytes) / (1 << 30)) })),
		}
		if rate, err := parseRate(sum.Rate); err == nil && rate > 0 {
			sum.OfLink = sum.Bits / rate
		}
		out = append(out, sum)
	}
	return out
}

func printRelays(w io.Writer, sums []relaySummary) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "protocol\tlink\tMbit/s relayed\tof the link\tCPU s per GiB\twithout own reading\town reading s\tstored: CPU s per GiB\t")
	for _, s := range sums {
		fmt.Fprintf(t, "%s\t%s\t%.0f\t%s %%\t%.2f\t%.2f\t%.2f\t%.3f\t\n", s.Protocol, s.Rate, s.Bits/1e6, strconv.FormatFloat(s.OfLink*100, 'f', 1, 64), s.CPUPerGiB, s.Passing, s.Read, s.Stored)
	}
	return t.Flush()
}
