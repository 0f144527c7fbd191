package store

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are counted without prometheus and read at a scrape, so that a store
// costs the same with and without a Registerer.
type metrics struct {
	damaged       atomic.Int64 // blocks dropped since their sum was wrong
	evictedBlocks atomic.Int64 // compressed blocks dropped to make room
	evictedFlat   atomic.Int64 // decoded blocks dropped to make room
	droppedFlats  atomic.Int64 // whole flat files dropped
	collectors    []prometheus.Collector
}

func (m *metrics) register(r prometheus.Registerer, s *Store) error {
	if r == nil {
		return nil
	}
	counter := func(name, help string, labels prometheus.Labels, n *atomic.Int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "faasnet", Subsystem: "store", Name: name, Help: help, ConstLabels: labels,
		}, func() float64 { return float64(n.Load()) })
	}
	gauge := func(kind string, get func(Usage) int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "faasnet", Subsystem: "store", Name: "bytes", Help: "Bytes on disk.",
			ConstLabels: prometheus.Labels{"kind": kind},
		}, func() float64 { return float64(get(s.Usage())) })
	}
	const evicted = "Things dropped to make room."
	all := []prometheus.Collector{
		counter("damaged_total", "Blocks dropped since their sum was wrong on the first read.", nil, &m.damaged),
		counter("evicted_total", evicted, prometheus.Labels{"kind": "block"}, &m.evictedBlocks),
		counter("evicted_total", evicted, prometheus.Labels{"kind": "decoded"}, &m.evictedFlat),
		counter("evicted_total", evicted, prometheus.Labels{"kind": "flat"}, &m.droppedFlats),
		gauge("blocks", func(u Usage) int64 { return u.BlockBytes }),
		gauge("sections", func(u Usage) int64 { return u.SectionBytes }),
		gauge("flat", func(u Usage) int64 { return u.FlatBytes }),
		gauge("sealed", func(u Usage) int64 { return u.SealedBytes }),
	}
	var errs []error
	for _, c := range all {
		if err := r.Register(c); err != nil {
			errs = append(errs, fmt.Errorf("store: metrics: %w", err))
			continue
		}
		m.collectors = append(m.collectors, c)
	}
	return errors.Join(errs...)
}

func (m *metrics) unregister(r prometheus.Registerer) {
	for _, c := range m.collectors {
		r.Unregister(c)
	}
}
