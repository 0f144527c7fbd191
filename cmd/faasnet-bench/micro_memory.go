package main

import (
	"context"
	"errors"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/micro"
	"github.com/faasnet/faasnet/script/lab"
)

// What the target for the daemon's memory says.
const (
	targetFunctions = 20
	targetLayers    = 29
)

// memory measures our daemon's memory by the number of layers that are mounted,
// all different ones, of which a container has read files.
func (m *micros) memory(ctx context.Context, _ []string) error {
	functions := []int{1, 5, 10, 17, targetFunctions}
	if m.quick {
		functions = functions[:1]
	}
	all := []microImage{layered(micro.Layered{Layers: 1, Files: layerFiles})}
	for i := range functions[len(functions)-1] {
		all = append(all, layered(micro.Layered{Layers: targetLayers, Files: 100, Blob: 1 << 20, Seed: 1 + i}))
	}
	if err := m.memoryReading(ctx); err != nil {
		return err
	}
	if err := m.serve(ctx, all...); err != nil {
		return err
	}
	for rep := range m.reps {
		for _, background := range []bool{false, true} {
			if err := m.memoryOnce(ctx, all, functions, background, rep); err != nil {
				return err
			}
		}
	}
	return nil
}

// memoryOnce mounts one image of one layer and then functions, on a new VM.
func (m *micros) memoryOnce(ctx context.Context, all []microImage, functions []int, background bool, rep int) (err error) {
	state := map[bool]string{false: "lazy", true: "local"}[background]
	plan := func(layers int, what string) microPlan {
		return microPlan{Name: "rss", System: ours, State: state + what, Size: layers}
	}
	if m.have(plan(functions[len(functions)-1]*targetLayers, "-peak"), rep) {
		return nil
	}
	first := m.registry.generated(all[0].name)
	v, err := m.microVM(ctx, ours, lab.Fleet{Daemon: &lab.DaemonConfig{LogLevel: "info", NoBackground: !background}}, first)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	figures := func(layers int) error {
		if background {
			if err := v.local(ctx, layers); err != nil {
				return err
			}
		}
		return m.addMemory(v.Daemon, plan(layers, ""), rep)
	}
	if err := v.use(ctx, first.ref(ours)); err != nil {
		return err
	}
	if err := figures(1); err != nil {
		return err
	}
	made := 0
	for _, n := range functions {
		for ; made < n; made++ {
			if err := v.use(ctx, m.registry.generated(all[1+made].name).ref(ours)); err != nil {
				return err
			}
		}
		if err := figures(n * targetLayers); err != nil {
			return err
		}
	}
	return nil
}

// use pulls and mounts an image and reads some of its files, as its function
// does; the mount stays.
func (v *microVM) use(ctx context.Context, ref string) error {
	if err := v.Containerd.Pull(ctx, v.snapshotter, ref); err != nil {
		return err
	}
	o, err := v.open(ctx, ref)
	if err != nil {
		return err
	}
	_, err = v.Run(ctx, "/bin/sh", "-c", `find "$0" -xdev -name 'file00*' -exec cat {} + | cat >/dev/null`, o.dir)
	return err
}
