package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/opencontainers/image-spec/identity"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/rivals"
	"github.com/faasnet/faasnet/script/lab"
)

// microVM is a VM whose images are mounted as a container has them: writable, by
// overlayfs, on what the system gives.
type microVM struct {
	*lab.VM
	snapshotter string
	client      *containerd.Client
	worker      *microWorker // nil until it is needed
	made        []*microMount
}

// microMount is an image mounted once.
type microMount struct {
	dir            string
	prepare, mount time.Duration // Prepare, with all that is mounted below; and overlayfs itself

	vm      *microVM
	key     string
	release func(context.Context) error // the lease
}

// microSource is where VMs get an image from.
type microSource struct {
	hub   *lab.Hub
	hosts string                     // directory of hosts.toml files
	ref   func(system string) string // of the form that a system pulls
}

// microVM makes a VM whose link is not shaped and that has pulled the images, as
// fleet says what else it runs.
func (m *micros) microVM(ctx context.Context, system string, fleet lab.Fleet, from ...microSource) (_ *microVM, err error) {
	m.vms++
	fleet.Name, fleet.VMs, fleet.HostsDir, fleet.Release = fmt.Sprintf("vm%d-", m.vms), 1, from[0].hosts, lab.Current
	vms, err := from[0].hub.Fleet(ctx, fleet)
	if len(vms) == 0 {
		return nil, err
	}
	v := &microVM{VM: vms[0], snapshotter: system}
	if s, rivalErr := rivals.Find(system); rivalErr == nil {
		v.snapshotter = s.Snapshotter
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, v.close())
		}
	}()
	if err != nil {
		return nil, err
	}
	if v.client, err = containerd.New(v.Containerd.Address()); err != nil {
		return nil, err
	}
	for _, image := range from {
		if err := v.Containerd.Pull(ctx, v.snapshotter, image.ref(system)); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// open mounts an image that was pulled.
func (v *microVM) open(ctx context.Context, ref string) (_ *microMount, err error) {
	ctx = namespaces.WithNamespace(ctx, "default")
	image, err := v.client.GetImage(ctx, ref)
	if err != nil {
		return nil, err
	}
	layers, err := image.RootFS(ctx)
	if err != nil {
		return nil, err
	}
	o := &microMount{vm: v, key: fmt.Sprintf("micro-%d", len(v.made))}
	if o.dir, err = os.MkdirTemp(v.Dir(), "mount"); err != nil {
		return nil, err
	}
	if ctx, o.release, err = v.client.WithLease(ctx); err != nil { // or containerd collects the snapshot
		return nil, err
	}
	begin := time.Now()
	mounts, err := v.client.SnapshotService(v.snapshotter).Prepare(ctx, o.key, identity.ChainID(layers).String())
	if err != nil {
		return nil, errors.Join(err, o.release(ctx))
	}
	o.prepare = time.Since(begin)
	v.made = append(v.made, o)
	begin = time.Now()
	if err := mount.All(mounts, o.dir); err != nil {
		return nil, errors.Join(err, o.close(ctx))
	}
	o.mount = time.Since(begin)
	return o, nil
}

// close unmounts the image and removes its snapshot. Idempotent.
func (o *microMount) close(ctx context.Context) error {
	if o.release == nil {
		return nil
	}
	ctx = namespaces.WithNamespace(ctx, "default")
	err := errors.Join(
		mount.UnmountAll(o.dir, 0),
		o.vm.client.SnapshotService(o.vm.snapshotter).Remove(ctx, o.key),
		o.release(ctx),
	)
	o.release = nil
	return err
}

// close ends the VM with all its mounts. Idempotent.
func (v *microVM) close() error {
	err := v.worker.close()
	if v.client != nil {
		v.client.Close()
		v.client = nil
	}
	return errors.Join(err, v.VM.Close())
}
