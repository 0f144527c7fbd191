package main

import (
	"context"
	"errors"
	"time"

	"github.com/faasnet/faasnet/script/images"
	"github.com/faasnet/faasnet/script/lab"
)

// stages is how one start goes on: time, CPU time of VM and registry and bytes
// from the registry after each of pull, making of the container, and READY.
type stages struct {
	at     [3]time.Duration
	cpu    [3]time.Duration
	bytes  [3]int64
	origin time.Duration
	blocks int
	pulled time.Duration // CPU time of a full pull before the begin
	pull   time.Duration // time of it
	full   int64         // bytes of it
}

// stage is what the i-th stage took of something that is counted from the begin.
func (stages) stage(i int, of [3]time.Duration) time.Duration {
	if i == 0 {
		return of[0]
	}
	return of[i] - of[i-1]
}

// stages measures one start of the image with a tag. The original is pulled and
// unpacked before, on a VM without our daemon.
func (s *site) stages(ctx context.Context, name, tag string) (t stages, err error) {
	daemon := tag != original
	link, err := s.hub.Link("")
	if err != nil {
		return t, err
	}
	host, err := s.Host(name, link)
	if err != nil {
		return t, err
	}
	vm := &lab.VM{Host: host, Net: link}
	defer func() { err = errors.Join(err, vm.Close()) }()
	snapshotter, ref := "overlayfs", s.ref(tag)
	if daemon {
		snapshotter = "faasnet"
		if vm.Daemon, err = host.Daemon(ctx, lab.DaemonConfig{HostsDir: s.hosts, NoBackground: true, LogLevel: "info"}); err != nil {
			return t, err
		}
	}
	if vm.Containerd, err = host.Containerd(ctx, lab.Current, s.hosts, vm.Daemon); err != nil {
		return t, err
	}
	m := &stopwatch{site: s, vm: vm}
	if !daemon {
		if err := m.start(); err != nil {
			return t, err
		}
		if err := vm.Containerd.Pull(ctx, snapshotter, ref); err != nil {
			return t, err
		}
		if t.pull, t.pulled, t.full, err = m.read(); err != nil {
			return t, err
		}
	}
	if err := dropCaches(); err != nil {
		return t, err
	}
	created, release, err := vm.Containerd.Created(ctx)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, release()) }()
	if err := m.start(); err != nil {
		return t, err
	}
	if daemon {
		if err := vm.Containerd.Pull(ctx, snapshotter, ref); err != nil {
			return t, err
		}
	}
	if err := m.take(&t, 0); err != nil {
		return t, err
	}
	made := make(chan error, 1)
	go func() {
		if _, ok := <-created; !ok {
			made <- errors.New("nobody has told when the container was made")
			return
		}
		made <- m.take(&t, 1)
	}()
	var figures error
	err = vm.Containerd.Run(ctx, snapshotter, ref, func(line string) bool {
		if images.IsName(s.image) && line != lab.Ready {
			return false
		}
		figures = m.take(&t, 2)
		return true
	})
	if err := errors.Join(err, figures); err != nil {
		return t, err
	}
	if err := <-made; err != nil || !daemon {
		return t, err
	}
	metrics, err := vm.Daemon.Metrics(ctx)
	t.blocks = int(metrics[`faasnet_fetch_blocks_total{source="registry"}`])
	return t, err
}

// stopwatch takes time, CPU time and bytes of a start.
type stopwatch struct {
	*site
	vm     *lab.VM
	began  time.Time
	cpu    time.Duration
	origin time.Duration
	sent   int64
}

func (m *stopwatch) start() error {
	cpu, cpuErr := m.vm.CPU()
	sent, sentErr := m.site.origin.Sent()
	origin, originErr := m.originHost.CPU()
	m.cpu, m.sent, m.origin, m.began = cpu, sent, origin, time.Now()
	return errors.Join(cpuErr, sentErr, originErr)
}

func (m *stopwatch) read() (at, cpu time.Duration, bytes int64, err error) {
	at = time.Since(m.began)
	cpu, cpuErr := m.vm.CPU()
	sent, sentErr := m.site.origin.Sent()
	return at, cpu - m.cpu, sent - m.sent, errors.Join(cpuErr, sentErr)
}

// take notes where the start is after a stage.
func (m *stopwatch) take(t *stages, stage int) (err error) {
	if t.at[stage], t.cpu[stage], t.bytes[stage], err = m.read(); err != nil {
		return err
	}
	cpu, err := m.originHost.CPU()
	t.origin = cpu - m.origin
	return err
}
