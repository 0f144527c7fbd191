package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/urfave/cli/v2"
)

const burstTimeout = 20 * time.Minute

// figureBursts are bursts of the plan p by each system, with each number of VMs
// and, of our trees, of stripes.
func figureBursts(c *cli.Context, p burstPlan, systems []string, vms, stripes []int) (*bursts, error) {
	b := &bursts{site: site{image: p.Image, progress: os.Stderr}, timeout: cmp.Or(c.Duration("timeout"), burstTimeout), report: io.Discard, told: map[string]bool{}}
	var err error
	if b.systems, err = rivalsOf(systems); err != nil {
		return nil, err
	}
	if b.plan, err = p.each(c, vms, systems, stripes); err != nil {
		return nil, err
	}
	return b, b.keep(c.Context) // but for figures that fill the registry themselves
}

// twoStripes is the form of trees where nothing else is asked for.
func twoStripes() []int { return []int{2} }

// each runs the plan reps times and gives f each row.
func (b *bursts) each(ctx context.Context, reps int, f func(burstRow) error) (err error) {
	if b.bench, err = newBench(ctx); err != nil {
		return err
	}
	defer b.close(&err)
	b.recorded = anyRecorded(b.plan)
	if b.more != nil {
		if err := b.fillMore(ctx, b.more); err != nil {
			return err
		}
	}
	if err := b.prepare(ctx, b.plan[0].RegistryRate); err != nil {
		return err
	}
	for rep := range reps {
		for _, p := range b.plan {
			row, err := b.once(ctx, p, rep)
			if err == nil && b.act == nil {
				err = failures(sumBursts([]burstRow{row}))
			}
			if err == nil {
				err = f(row)
			}
			if err != nil {
				return fmt.Errorf("%v: %w", p, err)
			}
		}
	}
	return nil
}
