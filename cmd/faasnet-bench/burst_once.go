package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/faasnet/faasnet/script/lab"
)

// pause is between the making of the last preparations and the begin.
const pause = 200 * time.Millisecond

// burst is one burst on its own VMs.
type burst struct {
	*bursts
	plan burstPlan
	vms  []*lab.VM
	tree *lab.Coordinator // nil: none

	treeHost *lab.Host
}

// once makes new VMs, and a coordinator where the plan has a tree, measures one
// burst and removes them.
func (b *bursts) once(ctx context.Context, p burstPlan, rep int) (_ burstRow, err error) {
	u := &burst{bursts: b, plan: p}
	row := burstRow{burstPlan: p, Rep: rep}
	if p.System == withTree {
		link, err := b.hub.Link("") // control only
		if err != nil {
			return row, err
		}
		if u.treeHost, err = b.Host("tree", link); err != nil {
			return row, err
		}
		defer func() { err = errors.Join(err, u.treeHost.Close(), link.Close()) }()
		if u.tree, err = u.treeHost.Coordinator(ctx, lab.CoordinatorConfig{Form: p.Form}); err != nil {
			return row, err
		}
	}
	u.vms, err = b.hub.Fleet(ctx, b.fleet(p, u.tree))
	defer func() {
		for _, vm := range u.vms {
			err = errors.Join(err, vm.Close())
		}
	}()
	if err != nil {
		return row, err
	}
	if how := p.called() + p.Form; !b.quiet && !b.told[how] {
		b.told[how] = true
		config, err := u.vms[0].Configuration()
		if err != nil {
			return row, err
		}
		fmt.Fprintf(b.progress, "--- configuration for %s %s\n%s---\n", p.called(), p.Form, config)
	}
	if p.system().Unpacked {
		if err := u.unpack(ctx); err != nil {
			return row, err
		}
	}
	if err := dropCaches(); err != nil {
		return row, err
	}
	run := u.run
	if b.act != nil {
		run = func(ctx context.Context, row *burstRow) error { return b.act(ctx, u, row) }
	}
	if err := run(ctx, &row); err != nil {
		return row, err
	}
	if err := printBurst(b.report, row); err != nil || !b.draw || u.tree == nil {
		return row, err
	}
	return row, draw(b.report, row)
}

// run starts the function on all VMs at once and takes the figures when all
// are READY or have failed.
func (b *burst) run(ctx context.Context, row *burstRow) (err error) {
	m, err := b.meter(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	timed, end := context.WithTimeout(ctx, b.timeout)
	var starts []*start
	defer func() {
		end()
		for _, s := range starts {
			<-s.ended
		}
	}()
	begin := time.Now().Add(pause)
	for _, vm := range b.vms {
		s, err := b.newStart(timed, vm)
		if err != nil {
			return err
		}
		starts = append(starts, s)
		go s.run(begin)
	}
	looked, err := b.lookOn(timed, begin)
	if err != nil {
		return err
	}
	if row.Kill != (kill{}) {
		if row.Struck, err = b.strike(ctx, row.Kill, begin, starts); err != nil {
			return err
		}
	}
	for _, s := range starts {
		if s.vm.Name() != row.Struck {
			<-s.ready
		}
	}
	if err := errors.Join(looked(), ctx.Err()); err != nil {
		return err
	}
	if err := m.read(ctx, row); err != nil {
		return err
	}
	for i, s := range starts {
		if s.vm.Name() == row.Struck {
			s.stop()
		}
		<-s.ended
		row.PerVM[i].times(s)
		if b.footprint {
			if row.PerVM[i].Disk, err = lab.DiskUsage(s.vm.Dir()); err != nil {
				return err
			}
		}
		if row.Full && row.Bound == 0 && s.err == nil {
			if row.Bound, err = b.linkBound(ctx, s.vm); err != nil {
				return err
			}
		}
	}
	if err := b.laziness(ctx, row, starts); err != nil {
		return err
	}
	row.total()
	for i, s := range starts {
		if row.PerVM[i].Error != "" && s.vm.Name() != row.Struck {
			fmt.Fprintf(b.progress, "--- %s failed: %s\n", s.vm.Name(), s.vm.LastWords())
		}
	}
	return nil
}
