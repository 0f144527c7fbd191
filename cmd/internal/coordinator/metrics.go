package coordinator

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/faasnet/faasnet/treeclient/treepb"
)

type metrics struct {
	joins    prometheus.Counter
	moves    prometheus.Counter
	silent   prometheus.Counter
	refusals prometheus.Counter
	reports  *prometheus.CounterVec
	answer   prometheus.Histogram
}

func newMetrics() metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return metrics{
		joins:    counter("faasnet_tree_joins_total", "Places given, those asked for by the scheduler included."),
		moves:    counter("faasnet_tree_moves_total", "Upstreams that were changed."),
		silent:   counter("faasnet_tree_silent_total", "VMs dropped because their heartbeats stayed away."),
		refusals: counter("faasnet_tree_refusals_total", "Joins refused because the VM was in too many functions."),
		reports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "faasnet_tree_reports_total", Help: "Reports of failing neighbours, by fault.",
		}, []string{"fault"}),
		answer: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "faasnet_tree_answer_seconds", Help: "From the receipt of a join until its assignment is sent.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9), // 0.1 ms to 6.6 s
		}),
	}
}

// quiet is the label of what is no fault yet.
const quiet = "QUIET"

func (m *metrics) report(f treepb.Report_Fault) {
	label, known := treepb.Report_Fault_name[int32(f)]
	if !known {
		label = "unknown"
	}
	m.reports.WithLabelValues(label).Inc()
}

func (m *metrics) register(r prometheus.Registerer, c *Coordinator) error {
	if r == nil {
		return nil
	}
	gauge := func(name, help string, count func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			c.mu.Lock()
			defer c.mu.Unlock()
			return float64(count())
		})
	}
	var errs []error
	for _, col := range []prometheus.Collector{
		m.joins, m.moves, m.silent, m.refusals, m.reports, m.answer,
		gauge("faasnet_tree_vms", "VMs that attend.", func() int { return len(c.sessions) }),
		gauge("faasnet_tree_functions", "Functions that have a tree.", func() int { return len(c.groves) }),
		gauge("faasnet_tree_suspended", "Places of VMs that others cannot read from.", func() int { return len(c.suspended) }),
	} {
		errs = append(errs, r.Register(col))
	}
	return errors.Join(errs...)
}
