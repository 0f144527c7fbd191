package node

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of a Node. What is not here is counted by the package that does it.
type metrics struct {
	mounts  *prometheus.CounterVec
	seconds prometheus.Histogram

	starts       *prometheus.CounterVec
	startBlocks  prometheus.Counter
	startSeconds prometheus.Histogram
}

// How the fetch of a start layer ended: the values of a label.
const (
	startWhole    = "whole"
	startPart     = "part"
	startFailed   = "failed"
	startCanceled = "canceled"
)

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
		starts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "faasnet_node_start_layers_total",
			Help: "Fetches of start layers that ended, by result: whole, part (some blocks did not come, or there was no room), failed (none came), canceled (the image was removed, or the daemon stopped).",
		}, []string{"result"}),
		startBlocks: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "faasnet_node_start_blocks_total",
			Help: "Blocks of start layers that were asked for ahead of readers.",
		}),
		startSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "faasnet_node_start_seconds",
			Help:    "Time from when containerd prepared a start layer, or a mount tried again, until all of it was here.",
			Buckets: prometheus.ExponentialBuckets(4e-3, 2, 16), // 4 ms to 131 s
		}),
	}
	for _, result := range []string{"ok", "error"} {
		m.mounts.WithLabelValues(result)
	}
	for _, result := range []string{startWhole, startPart, startFailed, startCanceled} {
		m.starts.WithLabelValues(result)
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.mounts, m.seconds, m.starts, m.startBlocks, m.startSeconds} {
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

// rushed counts the fetch of a start layer for which containerd asked at a time.
// One that was here already counts for nothing.
func (m *metrics) rushed(asked time.Time, blocks, missing, of int, ended error) {
	m.startBlocks.Add(float64(blocks))
	switch {
	case blocks == 0 && missing == 0:
	case missing == 0:
		m.starts.WithLabelValues(startWhole).Inc()
		m.startSeconds.Observe(time.Since(asked).Seconds())
	case ended != nil:
		m.starts.WithLabelValues(startCanceled).Inc()
	case missing < of:
		m.starts.WithLabelValues(startPart).Inc()
	default:
		m.starts.WithLabelValues(startFailed).Inc()
	}
}
