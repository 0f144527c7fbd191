package treeclient

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	changes   prometheus.Counter
	reports   prometheus.Counter
	functions prometheus.GaugeFunc
	attended  prometheus.GaugeFunc
}

func newMetrics(c *Client) metrics {
	gauge := func(name, help string, count func() int) prometheus.GaugeFunc {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			c.mu.Lock()
			defer c.mu.Unlock()
			return float64(count())
		})
	}
	return metrics{
		changes: prometheus.NewCounter(prometheus.CounterOpts{Name: "faasnet_treeclient_changes_total", Help: "Changes of this VM's places, renewed tokens included."}),
		reports: prometheus.NewCounter(prometheus.CounterOpts{Name: "faasnet_treeclient_reports_total", Help: "Neighbours reported to coordinators."}),
		functions: gauge("faasnet_treeclient_places", "Functions in which this VM has a place.", func() (n int) {
			for _, f := range c.functions {
				if len(f.place.Stripes) > 0 {
					n++
				}
			}
			return n
		}),
		attended: gauge("faasnet_treeclient_coordinators", "Coordinators that this VM has a stream to.", func() (n int) {
			for _, l := range c.links {
				if l.out != nil {
					n++
				}
			}
			return n
		}),
	}
}

func (m *metrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	return errors.Join(r.Register(m.changes), r.Register(m.reports), r.Register(m.functions), r.Register(m.attended))
}
