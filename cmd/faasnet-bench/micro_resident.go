package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/faasnet/faasnet/script/lab"
)

// memoryReading reads all files of image b from the registry, 700 MB, and takes
// our daemon's memory after it.
func (m *micros) memoryReading(ctx context.Context) (err error) {
	k := microKept{micros: m}
	defer func() { err = errors.Join(err, k.close()) }()
	for rep := range m.reps {
		if m.have(microPlan{Name: "rss", System: ours, State: "reading-peak"}, rep) {
			continue
		}
		if k.from.hub == nil {
			if err := k.open(ctx, "b"); err != nil {
				return err
			}
		}
		o, done, err := k.onEmpty(ctx)
		if err != nil {
			return err
		}
		err = o.readAll(ctx)
		if err == nil {
			err = m.addMemory(o.vm.Daemon, microPlan{Name: "rss", System: ours, State: "reading"}, rep)
		}
		if err := errors.Join(err, done()); err != nil {
			return err
		}
	}
	return nil
}

// addMemory adds what a daemon's memory is: all that is resident, without files,
// and the most so far.
func (m *micros) addMemory(d *lab.Daemon, p microPlan, rep int) error {
	f, err := memoryOf(d.Pid())
	if err != nil {
		return err
	}
	state := p.State
	for _, what := range []struct{ name, field string }{{"", "VmRSS"}, {"-anon", "RssAnon"}, {"-peak", "VmHWM"}} {
		p.State = state + what.name
		if err := m.add(microRow{microPlan: p, Rep: rep, Value: f[what.field], Unit: "MiB"}); err != nil {
			return err
		}
	}
	return nil
}

// memoryOf reads the fields of /proc/PID/status that are in kB, in MiB.
func memoryOf(pid int) (map[string]float64, error) {
	p, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil, err
	}
	fields := map[string]float64{}
	for line := range strings.Lines(string(p)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if kb, ok := strings.CutSuffix(value, " kB"); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(kb), 64)
			if err != nil {
				return nil, fmt.Errorf("%s of process %d: %w", name, pid, err)
			}
			fields[name] = n / (1 << 10)
		}
	}
	return fields, nil
}
