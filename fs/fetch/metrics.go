package fetch

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// from is where bytes came from; the label of the metrics.
type from int

const (
	fromStore from = iota
	fromPeer
	fromOrigin
	froms
)

var fromNames = [froms]string{"store", "peer", "registry"}

// metrics are counted without prometheus and read at a scrape, so that a
// fetcher costs the same with and without a Registerer.
type metrics struct {
	bytes      [froms]atomic.Int64
	blocks     [froms]atomic.Int64
	badBytes   [froms]atomic.Int64 // blocks that were not what was asked for
	landed     atomic.Int64        // flights that brought the block
	failed     atomic.Int64        // flights that did not
	hedges     atomic.Int64        // sources asked since the one before was late
	notKept    atomic.Int64        // blocks that the store could not take
	filled     atomic.Int64        // blocks brought by the background fill
	sealed     atomic.Int64        // layers completed and sealed
	collectors []prometheus.Collector
}

func (m *metrics) read(f from, n int) {
	m.bytes[f].Add(int64(n))
	m.blocks[f].Add(1)
}

// Bytes returns the compressed bytes that were read so far, from the store and
// from others.
func (f *Fetcher) Bytes() (stored, fetched int64) {
	m := &f.metrics
	return m.bytes[fromStore].Load(), m.bytes[fromPeer].Load() + m.bytes[fromOrigin].Load()
}

func (m *metrics) bad(f from) { m.badBytes[f].Add(1) }

func (m *metrics) flight(err error) {
	if err != nil {
		m.failed.Add(1)
		return
	}
	m.landed.Add(1)
}

func (m *metrics) register(r prometheus.Registerer, f *Fetcher) error {
	if r == nil {
		return nil
	}
	var errs []error
	add := func(c prometheus.Collector) {
		if err := r.Register(c); err != nil {
			errs = append(errs, fmt.Errorf("fetch: metrics: %w", err))
			return
		}
		m.collectors = append(m.collectors, c)
	}
	counter := func(name, help, label, value string, n *atomic.Int64) {
		o := prometheus.CounterOpts{Namespace: "faasnet", Subsystem: "fetch", Name: name, Help: help}
		if label != "" {
			o.ConstLabels = prometheus.Labels{label: value}
		}
		add(prometheus.NewCounterFunc(o, func() float64 { return float64(n.Load()) }))
	}
	for i, name := range fromNames {
		counter("bytes_total", "Compressed bytes by where they came from.", "source", name, &m.bytes[i])
		counter("blocks_total", "Blocks by where they came from.", "source", name, &m.blocks[i])
		counter("bad_blocks_total", "Blocks that failed verification by where they came from.", "source", name, &m.badBytes[i])
	}
	counter("flights_total", "Flights by result.", "result", "ok", &m.landed)
	counter("flights_total", "Flights by result.", "result", "error", &m.failed)
	counter("hedges_total", "Further sources asked because one was late.", "", "", &m.hedges)
	counter("not_kept_total", "Blocks served without caching since the disk took no more.", "", "", &m.notKept)
	counter("filled_blocks_total", "Blocks brought by the background fill.", "", "", &m.filled)
	counter("sealed_layers_total", "Layers completed and sealed.", "", "", &m.sealed)
	gauge := func(name, help string, get func() int) {
		add(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "faasnet", Subsystem: "fetch", Name: name, Help: help,
		}, func() float64 { return float64(get()) }))
	}
	gauge("fill_layers", "Layers that wait for the background fill.", f.fills.len)
	gauge("flights", "Flights under way.", f.gate.flights)
	return errors.Join(errs...)
}

func (m *metrics) unregister(r prometheus.Registerer) {
	for _, c := range m.collectors {
		r.Unregister(c)
	}
}
