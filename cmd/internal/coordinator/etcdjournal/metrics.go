package etcdjournal

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	written, restored, failures prometheus.Counter
	coordinators, blind         prometheus.GaugeFunc
}

func newMetrics(j *Journal) metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return metrics{
		written:  counter("faasnet_tree_etcd_written_total", "Trees written to etcd, those that ended included."),
		restored: counter("faasnet_tree_etcd_restored_total", "Trees read from etcd when this coordinator became their owner."),
		failures: counter("faasnet_tree_etcd_failures_total", "Requests to etcd that failed."),
		coordinators: prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "faasnet_tree_etcd_coordinators", Help: "Coordinators that live, this one included."},
			func() float64 { return float64(len(*j.ring.Load())) }),
		blind: prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "faasnet_tree_etcd_blind", Help: "1 while etcd does not answer."},
			func() float64 {
				if j.blind() {
					return 1
				}
				return 0
			}),
	}
}

func (m *metrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	return errors.Join(r.Register(m.written), r.Register(m.restored), r.Register(m.failures), r.Register(m.coordinators), r.Register(m.blind))
}
