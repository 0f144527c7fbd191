package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/micro"
)

// microState is one state of one system in which files are read.
type microState struct {
	system, state string
	// on gives the mount, and done what is to do after the work; done may be nil.
	on func(ctx context.Context) (o *microMount, done func() error, err error)
}

// cold tells that the page cache is dropped before the work.
func (s microState) cold() bool { return s.state != "warm" && s.state != "lazy-warm" }

// files measures works, image by image.
func (m *micros) files(ctx context.Context, names []string) error {
	var order []string
	works := map[string][]micro.Work{}
	for _, w := range micro.Works() {
		if !slices.Contains(names, w.Name) {
			continue
		}
		if works[w.Image] == nil {
			order = append(order, w.Image)
		}
		works[w.Image] = append(works[w.Image], w)
	}
	for _, image := range order {
		if err := m.filesOf(ctx, image, works[image]); err != nil {
			return fmt.Errorf("image %s: %w", image, err)
		}
	}
	return nil
}

// filesOf measures works in one image: repetitions outermost, systems innermost.
func (m *micros) filesOf(ctx context.Context, image string, works []micro.Work) (err error) {
	k := microKept{micros: m}
	defer func() { err = errors.Join(err, k.close()) }()
	if err := k.open(ctx, image); err != nil {
		return err
	}
	states := slices.DeleteFunc(k.states(), func(s microState) bool { return !slices.Contains(m.systems, s.system) })
	same := map[string]micro.Done{}
	for rep := range m.reps {
		for _, w := range works {
			for _, s := range states {
				p := microPlan{Name: w.Name, System: s.system, State: s.state}
				if m.have(p, rep) {
					continue
				}
				d, cpu, err := m.work(ctx, w, s)
				if err != nil {
					return fmt.Errorf("%v: %w", p, err)
				}
				if err := m.add(microRow{microPlan: p, Rep: rep, Value: d.Seconds, Unit: seconds, CPU: cpu, Bytes: d.Bytes, Items: d.Items}); err != nil {
					return err
				}
				d.Seconds = 0
				if was, known := same[w.Name]; known && was != d {
					return fmt.Errorf("%v did %+v, another did %+v", p, d, was)
				}
				same[w.Name] = d
			}
		}
	}
	return nil
}

// work does one work in one state.
func (m *micros) work(ctx context.Context, w micro.Work, s microState) (d micro.Done, cpu float64, err error) {
	o, done, err := s.on(ctx)
	if err != nil {
		return d, 0, err
	}
	if done != nil {
		defer func() { err = errors.Join(err, done()) }()
	}
	if o.vm.worker == nil {
		if o.vm.worker, err = newMicroWorker(ctx, o.vm.Host); err != nil {
			return d, 0, err
		}
	}
	if s.cold() {
		err = dropCaches()
	} else {
		_, err = o.vm.worker.do(w.Name, o.dir)
	}
	if err != nil {
		return d, 0, err
	}
	before, err := o.vm.CPU()
	if err != nil {
		return d, 0, err
	}
	if d, err = o.vm.worker.do(w.Name, o.dir); err != nil {
		if ctx.Err() != nil { // it was killed
			return d, 0, context.Cause(ctx)
		}
		return d, 0, errors.Join(err, errors.New(o.vm.LastWords()))
	}
	after, err := o.vm.CPU()
	return d, (after - before).Seconds(), err
}
