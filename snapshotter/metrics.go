package snapshotter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics has bounded labels only: how a layer was prepared, and one of the words that reason returns.
type metrics struct {
	layers *prometheus.CounterVec
	mounts *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		layers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "faasnet_snapshotter_layers_total",
			Help: "Layers prepared for an image: remote, reused from another namespace, or unpacked, and then why.",
		}, []string{"prepared", "reason"}),
		mounts: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "faasnet_snapshotter_mount_seconds",
			Help:    "Time that a Prepare, View or Mounts waited for the remote layers below it.",
			Buckets: []float64{.001, .003, .01, .03, .1, .3, 1, 3, 10, 30},
		}, []string{"result"}),
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.layers, m.mounts} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) layer(prepared, reason string) { m.layers.WithLabelValues(prepared, reason).Inc() }

func (m *metrics) mount(d time.Duration, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.mounts.WithLabelValues(result).Observe(d.Seconds())
}
