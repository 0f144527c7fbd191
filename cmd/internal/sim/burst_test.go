package sim

import (
	"errors"
	"slices"
	"time"
)

// burst is N starts of one function at the same moment, by place among the VMs.
type burst struct {
	ready   []time.Duration // when each VM had read what it reads; 0: it did not get there
	slowest []time.Duration // read of each
	failed  [][]error       // reads of each
	egress  float64         // of the registry, in images
}

// burst starts the function of m on all vms and returns when each has read work.
// meanwhile, if any, runs beside them.
func (w *world) burst(vms []*vm, m *image, work []span, atOnce int, meanwhile func()) burst {
	w.t.Helper()
	before, began := w.egress(), time.Now()
	if meanwhile != nil {
		w.work.Go(meanwhile)
	}
	b := burst{ready: make([]time.Duration, len(vms)), slowest: make([]time.Duration, len(vms)), failed: make([][]error, len(vms))}
	for i, c := range all(vms, func(v *vm) *container {
		c, err := v.create(background, m)
		defer c.close()
		if err == nil {
			err = c.read(background, work, atOnce)
		}
		if err == nil {
			c.ready = time.Since(began)
		} else if len(c.failed) == 0 {
			c.fail(err)
		}
		return c
	}) {
		b.ready[i], b.slowest[i], b.failed[i] = c.ready, c.slowest, c.failed
	}
	w.work.Wait()
	b.egress = float64(w.egress()-before) / float64(m.bytes())
	return b
}

// err returns what failed, but not on the VMs that are excused.
func (b burst) err(excused ...int) error {
	var errs []error
	for i, failed := range b.failed {
		if !slices.Contains(excused, i) {
			errs = append(errs, failed...)
		}
	}
	return errors.Join(errs...)
}

// last is when the last VM was ready, those that are excused not counted.
func (b burst) last(excused ...int) (d time.Duration) {
	for i, r := range b.ready {
		if !slices.Contains(excused, i) {
			d = max(d, r)
		}
	}
	return d
}

func (b burst) median() time.Duration {
	ds := slices.Sorted(slices.Values(b.ready))
	return ds[len(ds)/2]
}

// whole is a burst in which all of m is read. A read that fails fails the test.
func (w *world) whole(vms []*vm, m *image, meanwhile func(), excused ...int) burst {
	w.t.Helper()
	b := w.burst(vms, m, m.whole(blockSize/2), 2, meanwhile)
	if err := b.err(excused...); err != nil {
		w.t.Error(err)
	}
	return b
}

// atLink is how long n bytes take on a link.
func atLink(n, rate int64) time.Duration {
	return time.Duration(float64(n) / float64(rate) * float64(time.Second))
}

// whole returns spans of so many bytes that cover all layers.
func (m *image) whole(step int) (out []span) {
	for i := range m.layers {
		out = append(out, m.part(i, step, 1)...)
	}
	return out
}
