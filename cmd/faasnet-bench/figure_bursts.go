package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/rivals"
)

const burstTimeout = 20 * time.Minute

// figureBursts are bursts of the plan p by each system, with each number of
// VMs; our tree has two stripes, unless p says otherwise.
func figureBursts(c *cli.Context, p burstPlan, systems []string, vms []int) (*bursts, error) {
	b := &bursts{site: site{image: p.Image, progress: os.Stderr}, timeout: cmp.Or(c.Duration("timeout"), burstTimeout), report: io.Discard, told: map[string]bool{}}
	for _, name := range systems {
		s, err := rivals.Find(name)
		if err != nil {
			return nil, usage(err)
		}
		b.systems = append(b.systems, s)
	}
	for _, n := range vms {
		for _, s := range b.systems {
			one := p
			one.System, one.VMs = s.Name, n
			if !s.Tree {
				one.Stripes = 0
			} else if one.Stripes == 0 {
				one.Stripes = 2
			}
			var err error
			if one.Stripes > 0 {
				if one.Form, err = formOf(one.Stripes, ""); err != nil {
					return nil, err
				}
			}
			if err := one.check(); err != nil {
				return nil, err
			}
			for _, one.Recorded = range variantsOf(c).of(s) {
				b.plan = append(b.plan, one)
			}
		}
	}
	return b, b.keep(c.Context) // but for figures that fill the registry themselves
}

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
