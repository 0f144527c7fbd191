package lab

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"
)

// VM is a host on a bridge with containerd and, unless it is nil, our daemon
// or another snapshotter.
type VM struct {
	*Host
	Net        *Net
	Daemon     *Daemon
	Plugin     *Plugin
	Containerd *Containerd
}

// Fleet is what the VMs of a Hub.Fleet have in common.
type Fleet struct {
	Name     string // prefix of the names of VMs
	VMs      int
	Rate     string // of each link, both ways; "": not shaped
	HostsDir string
	Release  Release
	// Daemon is the configuration of our daemon; nil: none.
	Daemon *DaemonConfig
	// Plugin starts another snapshotter on a VM; nil: none. Not with Daemon.
	Plugin func(ctx context.Context, h *Host) (*Plugin, error)
}

// Fleet adds VMs and starts their daemons. On failure those that were made go
// with the lab.
func (h *Hub) Fleet(ctx context.Context, f Fleet) ([]*VM, error) {
	var vms []*VM
	for i := range f.VMs {
		net, err := h.Link(f.Rate)
		if err != nil {
			return nil, err
		}
		host, err := h.lab.Host(fmt.Sprintf("%s%d", f.Name, i), net)
		if err != nil {
			return nil, err
		}
		vms = append(vms, &VM{Host: host, Net: net})
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.NumCPU())
	for _, vm := range vms {
		g.Go(func() error { return f.start(ctx, vm) })
	}
	return vms, g.Wait()
}

func (f Fleet) start(ctx context.Context, vm *VM) (err error) {
	switch {
	case f.Daemon != nil:
		config := *f.Daemon
		config.HostsDir = f.HostsDir
		if vm.Daemon, err = vm.Host.Daemon(ctx, config); err != nil {
			return err
		}
	case f.Plugin != nil:
		if vm.Plugin, err = f.Plugin(ctx, vm.Host); err != nil {
			return err
		}
		vm.Containerd, err = vm.ContainerdWith(ctx, f.Release, f.HostsDir, vm.Plugin)
		return err
	}
	vm.Containerd, err = vm.Host.Containerd(ctx, f.Release, f.HostsDir, vm.Daemon)
	return err
}

// Daemons are the VM's containerd and, where it has one of its own, its
// snapshotter's.
func (v *VM) Daemons() []*Proc {
	all := []*Proc{v.Containerd.Proc}
	if v.Daemon != nil {
		all = append(all, v.Daemon.Proc)
	}
	if v.Plugin != nil && v.Plugin.Daemon != nil {
		all = append(all, v.Plugin.Daemon)
	}
	return all
}

// LastWords are the ends of what the VM's daemons printed.
func (v *VM) LastWords() string {
	var words strings.Builder
	for _, p := range v.Daemons() {
		words.WriteString(filepath.Base(p.log) + ": " + p.Tail())
	}
	return words.String()
}

// Close ends the VM and its link. Idempotent; the lab's Close does it too.
func (v *VM) Close() error { return errors.Join(v.Host.Close(), v.Net.Close()) }
