package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/micro"
	"github.com/faasnet/faasnet/script/lab"
)

const layerFiles = 16

// layers measures Prepare and mount by the number of layers: repetitions have
// new VMs.
func (m *micros) layers(ctx context.Context, _ []string) error {
	counts := []int{1, 2, 4, 8, 16, 29, 64, 127}
	if m.quick {
		counts = []int{1, 8}
	}
	all := make([]microImage, len(counts))
	for i, n := range counts {
		all[i] = layered(micro.Layered{Layers: n, Files: layerFiles})
	}
	if err := m.serve(ctx, all...); err != nil {
		return err
	}
	for rep := range m.reps {
		for i, n := range counts {
			if m.have(microPlan{Name: "layers", System: ours, State: "mount", Size: n}, rep) {
				continue
			}
			for _, system := range []string{native, ours} {
				if err := m.layersOf(ctx, system, all[i].name, n, rep); err != nil {
					return fmt.Errorf("%s, %d layers: %w", system, n, err)
				}
			}
		}
	}
	return nil
}

// layersOf measures one image on a new VM: Prepare of the first container when
// only the pull has been (first), that of a container when nothing is mounted
// (prepare) and when another one has the image (shared), and overlayfs's own
// mount (mount). All but the first are medians of some rounds.
func (m *micros) layersOf(ctx context.Context, system, image string, layers, rep int) (err error) {
	var fleet lab.Fleet
	if system == ours {
		fleet.Daemon = &lab.DaemonConfig{LogLevel: "info"}
	}
	from := m.registry.generated(image)
	v, err := m.microVM(ctx, system, fleet, from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	ref := from.ref(system)
	o, err := v.open(ctx, ref)
	if err != nil {
		return err
	}
	row := func(state string, t time.Duration) error {
		return m.add(microRow{microPlan: microPlan{Name: "layers", System: system, State: state, Size: layers}, Rep: rep, Value: t.Seconds(), Unit: seconds})
	}
	if err := row("first", o.prepare); err != nil {
		return err
	}
	if system == ours {
		err = v.local(ctx, layers)
	}
	if err := errors.Join(err, o.close(ctx)); err != nil {
		return err
	}
	rounds := 5 // each is milliseconds
	if m.quick {
		rounds = 1
	}
	var prepare, shared, mounted []time.Duration
	for range rounds {
		if system == ours {
			if err := v.unmounted(ctx); err != nil {
				return err
			}
		}
		one, err := v.open(ctx, ref)
		if err != nil {
			return err
		}
		two, err := v.open(ctx, ref)
		if err != nil {
			return err
		}
		prepare, shared, mounted = append(prepare, one.prepare), append(shared, two.prepare), append(mounted, one.mount)
		if err := errors.Join(two.close(ctx), one.close(ctx)); err != nil {
			return err
		}
	}
	return errors.Join(row("prepare", median(prepare)), row("shared", median(shared)), row("mount", median(mounted)))
}

// unmounted waits until our daemon has nothing mounted.
func (v *microVM) unmounted(ctx context.Context) error {
	return v.until(ctx, "mounts of containers that are gone are gone", func(values map[string]float64) bool {
		return values[`faasnet_mounts{data="lazy"}`]+values[`faasnet_mounts{data="local"}`] == 0
	})
}

// local waits until so many layers are whole; what is mounted next of them needs
// our daemon no more.
func (v *microVM) local(ctx context.Context, layers int) error {
	return v.until(ctx, fmt.Sprintf("%d layers are whole", layers), func(values map[string]float64) bool {
		return int(values["faasnet_fetch_sealed_layers_total"]) >= layers
	})
}

// until waits for something that the daemon's metrics tell.
func (v *microVM) until(ctx context.Context, what string, is func(map[string]float64) bool) error {
	const patience = 2 * time.Minute
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		values, err := v.Daemon.Metrics(ctx)
		if err != nil {
			return err
		}
		if is(values) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("waited %v until %s: %s", patience, what, v.LastWords())
		}
	}
}
