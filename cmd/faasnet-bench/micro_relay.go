package main

import (
	"context"
	"errors"
)

// relays measures the relay between VMs whose links are not shaped: a VM serves
// stored blocks, another one gathers them (receives, verifies and stores), and
// one passes on to two while it reads for itself, less what its own reading
// costs. A row is the bits that went over CPU seconds of that VM.
func (m *micros) relays(ctx context.Context, _ []string) error {
	r := relays{bench: m.bench, blocks: 2 << 10}
	if m.quick {
		r.blocks = 64
	}
	for rep := range m.reps {
		served := microPlan{Name: "relay", System: ours, State: "serve"}
		gathered := microPlan{Name: "relay", System: ours, State: "gather"}
		passed := microPlan{Name: "relay", System: ours, State: "pass"}
		if m.have(passed, rep) {
			continue
		}
		top, leaf, bytes, err := r.pair(ctx)
		if err != nil {
			return err
		}
		alone, err := r.once(ctx, ours)
		if err != nil {
			return err
		}
		both, err := r.once(ctx, ours, "left", "right")
		if err != nil {
			return err
		}
		for _, f := range []struct {
			plan  microPlan
			bytes int64
			cpu   float64
		}{{served, bytes, top}, {gathered, bytes, leaf}, {passed, both.Relayed, both.CPU - alone.CPU}} {
			if f.cpu <= 0 {
				return errors.New("no CPU time was counted")
			}
			if err := m.add(microRow{microPlan: f.plan, Rep: rep, Value: float64(f.bytes) * 8 / 1e9 / f.cpu, Unit: "Gbit/s a core", CPU: f.cpu, Bytes: f.bytes}); err != nil {
				return err
			}
		}
	}
	return nil
}

// pair has a VM gather all blocks from one that has them stored, and returns
// the CPU seconds of both.
func (r *relays) pair(ctx context.Context) (top, leaf float64, bytes int64, err error) {
	hub, err := r.Hub()
	if err != nil {
		return 0, 0, 0, err
	}
	var vms []*relayVM
	defer func() {
		for _, vm := range vms {
			err = errors.Join(err, vm.close())
		}
		err = errors.Join(err, hub.Close())
	}()
	for _, name := range []string{"top", "leaf"} {
		vm, err := r.newRelayVM(ctx, hub, ours, name, vms)
		if vm != nil {
			vms = append(vms, vm)
		}
		if err != nil {
			return 0, 0, 0, err
		}
	}
	var before, after [2]float64
	for i, vm := range vms {
		d, err := vm.host.CPU()
		if err != nil {
			return 0, 0, 0, err
		}
		before[i] = d.Seconds()
	}
	if bytes, err = vms[1].do("gather"); err != nil {
		return 0, 0, 0, err
	}
	for i, vm := range vms {
		d, err := vm.host.CPU()
		if err != nil {
			return 0, 0, 0, err
		}
		after[i] = d.Seconds()
	}
	return after[0] - before[0], after[1] - before[1], bytes, nil
}
