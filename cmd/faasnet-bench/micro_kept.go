package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/rivals"
	"github.com/faasnet/faasnet/script/lab"
)

// microKept has one image in a registry and the VMs that serve for all works,
// each made when it is first needed.
type microKept struct {
	*micros
	site site
	from microSource

	native, mixed, decode, cached *microVM
	unpacked, lazy, whole, filled *microMount
}

// open serves the image behind a link that is not shaped, in the forms of all
// systems.
func (k *microKept) open(ctx context.Context, image string) error {
	k.site = site{image: image, reuse: true, progress: k.progress, bench: k.bench}
	for _, name := range k.systems {
		s, err := rivals.Find(name)
		if err != nil {
			return err
		}
		k.site.systems = append(k.site.systems, s)
	}
	if err := k.site.keep(ctx); err != nil {
		return err
	}
	if err := k.site.prepare(ctx, ""); err != nil {
		return err
	}
	k.from = microSource{k.site.hub, k.site.hosts, func(system string) string {
		for _, s := range k.site.systems {
			if s.Name == system {
				return k.site.ref(s.Tag)
			}
		}
		return ""
	}}
	return nil
}

// close ends all VMs and the registry.
func (k *microKept) close() (err error) {
	for _, v := range []*microVM{k.native, k.mixed, k.decode, k.cached} {
		if v != nil {
			err = errors.Join(err, v.close())
		}
	}
	if k.site.originHost != nil {
		err = errors.Join(err, k.site.originHost.Close())
	}
	if k.site.origin != nil {
		err = errors.Join(err, k.site.origin.Close())
	}
	if k.site.hub != nil {
		err = errors.Join(err, k.site.hub.Close())
	}
	return err
}

// states lists the states in which an image is read. A warm one comes right
// behind its cold one.
func (k *microKept) states() []microState {
	all := []microState{
		{native, "cold", k.onNative}, {native, "warm", k.onNative},
		{ours, "cold", k.onWhole}, {ours, "warm", k.onWhole},
		{ours, "lazy-cold", k.onLazy}, {ours, "lazy-warm", k.onLazy},
		{ours, "blocks", k.onBlocks},
		{ours, "registry", k.onEmpty},
	}
	return append(all, k.rivalStates()...)
}

// onNative is the image unpacked by containerd.
func (k *microKept) onNative(ctx context.Context) (_ *microMount, _ func() error, err error) {
	if k.native == nil {
		if k.native, err = k.microVM(ctx, native, lab.Fleet{}, k.from); err != nil {
			return nil, nil, err
		}
		if k.unpacked, err = k.native.open(ctx, k.from.ref(native)); err != nil {
			return nil, nil, err
		}
	}
	return k.unpacked, nil, nil
}

// mix makes a VM that mounts the image twice: while nothing of it is there, and
// when all of it is.
func (k *microKept) mix(ctx context.Context) (err error) {
	if k.mixed != nil {
		return nil
	}
	if k.mixed, err = k.microVM(ctx, ours, lab.Fleet{Daemon: &lab.DaemonConfig{LogLevel: "info"}}, k.from); err != nil {
		return err
	}
	if k.lazy, err = k.mixed.open(ctx, k.from.ref(ours)); err != nil {
		return err
	}
	layers, err := k.mixed.Containerd.Layers(ctx, k.from.ref(ours))
	if err != nil {
		return err
	}
	if err := k.mixed.local(ctx, len(layers)-1); err != nil { // but the index layer
		return err
	}
	if k.whole, err = k.mixed.open(ctx, k.from.ref(ours)); err != nil {
		return err
	}
	values, err := k.mixed.Daemon.Metrics(ctx)
	if err == nil && (values[`faasnet_mounts{data="lazy"}`] != 1 || values[`faasnet_mounts{data="local"}`] != 1) {
		err = errors.New("one lazy and one local mount are expected")
	}
	return err
}

func (k *microKept) onWhole(ctx context.Context) (*microMount, func() error, error) {
	err := k.mix(ctx)
	return k.whole, nil, err
}

func (k *microKept) onLazy(ctx context.Context) (*microMount, func() error, error) {
	err := k.mix(ctx)
	return k.lazy, nil, err
}

// onEmpty is a new VM, whose store is empty.
func (k *microKept) onEmpty(ctx context.Context) (*microMount, func() error, error) {
	vm, err := k.microVM(ctx, ours, lab.Fleet{Daemon: &lab.DaemonConfig{LogLevel: "info", NoBackground: true}}, k.from)
	if err != nil {
		return nil, nil, err
	}
	o, err := vm.open(ctx, k.from.ref(ours))
	if err != nil {
		return nil, nil, errors.Join(err, vm.close())
	}
	return o, vm.close, nil
}

// readAll reads every file.
func (o *microMount) readAll(ctx context.Context) error {
	_, err := o.vm.Run(ctx, "/bin/sh", "-c", `find "$0" -xdev -type f -exec cat {} + | cat >/dev/null`, o.dir)
	return err
}

// onBlocks is a VM that has all blocks and nothing decoded: what it had decoded
// is removed while its daemon is stopped.
func (k *microKept) onBlocks(ctx context.Context) (_ *microMount, _ func() error, err error) {
	if k.decode == nil {
		if k.decode, err = k.microVM(ctx, ours, lab.Fleet{Daemon: &lab.DaemonConfig{LogLevel: "info", NoBackground: true}}, k.from); err != nil {
			return nil, nil, err
		}
		o, err := k.decode.open(ctx, k.from.ref(ours))
		if err != nil {
			return nil, nil, err
		}
		if err := errors.Join(o.readAll(ctx), o.close(ctx)); err != nil {
			return nil, nil, err
		}
	}
	v := k.decode
	const patience = 20 * time.Second
	if err := errors.Join(v.Containerd.Stop(patience), v.Daemon.Stop(patience)); err != nil {
		return nil, nil, err
	}
	if err := os.RemoveAll(filepath.Join(v.Daemon.Root(), "store", "flat")); err != nil {
		return nil, nil, err
	}
	if err := errors.Join(v.Daemon.Start(ctx), v.Containerd.Start(ctx)); err != nil {
		return nil, nil, err
	}
	o, err := v.open(ctx, k.from.ref(ours))
	if err != nil {
		return nil, nil, err
	}
	return o, func() error { return o.close(ctx) }, nil
}
