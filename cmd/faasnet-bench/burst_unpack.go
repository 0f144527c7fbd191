package main

import (
	"context"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/faasnet/faasnet/script/lab"
)

// unpack has all VMs pull the image before the burst, over links that are wide
// for that long.
func (b *burst) unpack(ctx context.Context) error {
	const wide = "20gbit"
	nets := []*lab.Net{b.origin}
	rates := []string{b.plan.RegistryRate}
	for _, vm := range b.vms {
		nets = append(nets, vm.Net)
		rates = append(rates, b.plan.Rate)
	}
	for _, n := range nets {
		if err := n.SetRate(wide); err != nil {
			return err
		}
	}
	how := b.plan.system()
	g, pulling := errgroup.WithContext(ctx)
	g.SetLimit(runtime.NumCPU())
	for _, vm := range b.vms {
		g.Go(func() error { return vm.Containerd.Pull(pulling, how.Snapshotter, b.ref(how.Tag)) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, n := range nets {
		if err := n.SetRate(rates[i]); err != nil {
			return err
		}
	}
	return nil
}
