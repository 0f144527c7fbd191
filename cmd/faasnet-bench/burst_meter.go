package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/faasnet/faasnet/script/lab"
)

// meter takes the figures of a burst that are counted outside of it.
type meter struct {
	burst   *burst
	origin  int64           // bytes that the registry's port had sent before
	cpu     []time.Duration // of the VMs, before
	sent    []int64         // by the VMs, before
	got     []int64         // by the VMs, before
	hosts   [2]time.Duration
	reparen *lab.Reparentings // nil: no tree
}

// meter notes where the counters stand.
func (b *burst) meter(ctx context.Context) (m *meter, err error) {
	m = &meter{burst: b, cpu: make([]time.Duration, len(b.vms)), sent: make([]int64, len(b.vms)), got: make([]int64, len(b.vms))}
	if m.origin, err = b.origin.Sent(); err != nil {
		return nil, err
	}
	for i, vm := range b.vms {
		if m.sent[i], err = vm.Net.Sent(); err != nil {
			return nil, err
		}
		if m.got[i], err = vm.Net.Received(); err != nil {
			return nil, err
		}
		if m.cpu[i], err = vm.CPU(); err != nil {
			return nil, err
		}
	}
	if m.hosts, err = b.servers(); err != nil {
		return nil, err
	}
	if b.tree != nil {
		m.reparen, err = b.tree.Reparentings(ctx)
	}
	return m, err
}

func (m *meter) close() error {
	if m.reparen == nil {
		return nil
	}
	return m.reparen.Close()
}

// servers is the CPU time of registry and coordinator.
func (b *burst) servers() (cpu [2]time.Duration, err error) {
	if cpu[0], err = b.originHost.CPU(); err == nil && b.tree != nil {
		cpu[1], err = b.treeHost.CPU()
	}
	return cpu, err
}

// read fills in the figures.
func (m *meter) read(ctx context.Context, row *burstRow) error {
	b := m.burst
	sent, err := b.origin.Sent()
	if err != nil {
		return err
	}
	row.RegistryBytes = sent - m.origin
	hosts, err := b.servers()
	if err != nil {
		return err
	}
	row.OriginCPU, row.TreeCPU = (hosts[0] - m.hosts[0]).Seconds(), (hosts[1] - m.hosts[1]).Seconds()
	var nodes []lab.Node
	if b.tree != nil {
		if row.Reparented, err = m.reparen.Count(); err != nil {
			return err
		}
		if nodes, err = b.tree.Nodes(ctx); err != nil {
			return err
		}
	}
	row.PerVM = make([]burstVM, len(b.vms))
	for i, vm := range b.vms {
		r := &row.PerVM[i]
		cpu, cpuErr := vm.CPU()
		sent, sentErr := vm.Net.Sent()
		got, gotErr := vm.Net.Received()
		if err := errors.Join(cpuErr, sentErr, gotErr); err != nil {
			return err
		}
		r.CPU, r.SentBytes, r.ReceivedBytes = (cpu - m.cpu[i]).Seconds(), sent-m.sent[i], got-m.got[i]
		for _, n := range nodes {
			if n.VM == vm.Name() {
				r.Upstreams, r.Depths = n.Upstreams, n.Depths
			}
		}
		if vm.Name() == row.Struck { // it may not answer
			continue
		}
		for _, p := range vm.Daemons() {
			peak, err := p.PeakMemory()
			if ignoreMissing(err) != nil { // one that died has failed its VM
				return err
			}
			r.PeakMemory += peak
		}
		if vm.Daemon == nil {
			r.RegistryBytes = r.ReceivedBytes
		} else {
			if err := r.metrics(ctx, vm.Daemon); err != nil {
				return err
			}
			if err := r.from(ctx, b, vm); err != nil {
				return err
			}
		}
	}
	return nil
}

// metrics fills in what the VM's daemon says.
func (r *burstVM) metrics(ctx context.Context, d *lab.Daemon) error {
	m, err := d.Metrics(ctx)
	if err != nil {
		return err
	}
	sum := func(name string, labels ...string) (total int64) {
	series:
		for s, v := range m {
			if s != name && !strings.HasPrefix(s, name+"{") {
				continue
			}
			for _, l := range labels {
				if !strings.Contains(s, l) {
					continue series
				}
			}
			total += int64(v)
		}
		return total
	}
	const bytes = "faasnet_fetch_bytes_total"
	r.RegistryBytes, r.PeerBytes, r.CacheBytes = sum(bytes, `source="registry"`), sum(bytes, `source="peer"`), sum(bytes, `source="store"`)
	r.DaemonCPU = m["process_cpu_seconds_total"]
	r.failedReads, r.badBlocks = sum("faasnet_fuse_read_errors_total"), sum("faasnet_fetch_bad_blocks_total")
	return nil
}

// from fills in what came from other VMs.
func (r *burstVM) from(ctx context.Context, b *burst, vm *lab.VM) error {
	if b.tree == nil {
		return nil
	}
	received, err := vm.ReceivedFrom(ctx)
	r.From = map[string]int64{}
	for _, other := range b.vms {
		if n := received[other.Net.Addr]; n > 0 {
			r.From[other.Name()] = n
		}
	}
	return err
}

// linkBound is how long the link of a VM takes for the image's layers.
func (b *burst) linkBound(ctx context.Context, pulled *lab.VM) (float64, error) {
	n, err := layerBytes(ctx, pulled.Containerd, b.ref(b.plan.system().Tag))
	if err != nil {
		return 0, err
	}
	rate, err := parseRate(b.plan.Rate)
	return float64(n) * 8 / rate, err
}
