package node

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of a Node. What is not here is counted by the package that does it.
type metrics struct {
	mounts  *prometheus.CounterVec
	seconds prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		mounts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "faasnet_node_mounts_total",
			Help: "Mounts made, by result: ok or error. Users that share a mount count once.",
		}, []string{"result"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "faasnet_node_mount_seconds",
			Help:    "Time to make a mount, with the fetch of its metadata.",
			Buckets: prometheus.ExponentialBuckets(4e-3, 2, 14), // 4 ms to 33 s
		}),
	}
	for _, result := range []string{"ok", "error"} {
		m.mounts.WithLabelValues(result)
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.mounts, m.seconds} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) mounted(start time.Time, err error) {
	if err != nil {
		m.mounts.WithLabelValues("error").Inc()
		return
	}
	m.mounts.WithLabelValues("ok").Inc()
	m.seconds.Observe(time.Since(start).Seconds())
}
