package lab

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// VM is a host on a bridge with containerd and, unless it is nil, our daemon.
type VM struct {
	*Host
	Net        *Net
	Daemon     *Daemon
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
		g.Go(func() (err error) {
			if f.Daemon != nil {
				config := *f.Daemon
				config.HostsDir = f.HostsDir
				if vm.Daemon, err = vm.Host.Daemon(ctx, config); err != nil {
					return err
				}
			}
			vm.Containerd, err = vm.Host.Containerd(ctx, f.Release, f.HostsDir, vm.Daemon)
			return err
		})
	}
	return vms, g.Wait()
}

// LastWords are the ends of what the VM's daemons printed.
func (v *VM) LastWords() string {
	words := "containerd: " + v.Containerd.Tail()
	if v.Daemon != nil {
		words += "daemon: " + v.Daemon.Tail()
	}
	return words
}

// Close ends the VM and its link. Idempotent; the lab's Close does it too.
func (v *VM) Close() error { return errors.Join(v.Host.Close(), v.Net.Close()) }
