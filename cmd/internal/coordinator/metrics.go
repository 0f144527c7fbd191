package coordinator

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	moves    prometheus.Counter
	silent   prometheus.Counter
	refusals prometheus.Counter
	reports  *prometheus.CounterVec
}

func (m *metrics) register(r prometheus.Registerer, c *Coordinator) error {
	m.moves = prometheus.NewCounter(prometheus.CounterOpts{Name: "faasnet_tree_moves_total", Help: "Upstreams that were changed."})
	m.silent = prometheus.NewCounter(prometheus.CounterOpts{Name: "faasnet_tree_silent_total", Help: "VMs dropped because their heartbeats stayed away."})
	m.refusals = prometheus.NewCounter(prometheus.CounterOpts{Name: "faasnet_tree_refusals_total", Help: "Joins refused because the VM was in too many functions."})
	m.reports = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "faasnet_tree_reports_total", Help: "Reports of failing neighbours, by fault."}, []string{"fault"})
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
		m.moves, m.silent, m.refusals, m.reports,
		gauge("faasnet_tree_vms", "VMs that attend.", func() int { return len(c.sessions) }),
		gauge("faasnet_tree_functions", "Functions that have a tree.", func() int { return len(c.groves) }),
	} {
		errs = append(errs, r.Register(col))
	}
	return errors.Join(errs...)
}
