package fs

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of one FS. All labels have a fixed, small set of values.
type metrics struct {
	requests  *prometheus.CounterVec // by op: what the kernel asked of the FUSE mount
	bytes     prometheus.Counter
	seconds   prometheus.Histogram
	failures  *prometheus.CounterVec // by reason
	mounts    *prometheus.GaugeVec   // by data: "local" or "lazy"
	mountTime prometheus.Histogram
	aborts    prometheus.Counter
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "faasnet_fuse_requests_total",
			Help: "Requests of the kernel on the FUSE mount of flat layer files.",
		}, []string{"op"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "faasnet_fuse_read_bytes_total",
			Help: "Bytes answered to READ requests.",
		}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "faasnet_fuse_read_seconds",
			Help:    "Time from a READ request to the answer, including the wait for blocks.",
			Buckets: prometheus.ExponentialBuckets(16e-6, 4, 11), // 16 us to 17 s
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "faasnet_fuse_read_errors_total",
			Help: "READ requests answered with an error, by reason: deadline, interrupt, limit, source.",
		}, []string{"reason"}),
		mounts: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "faasnet_mounts",
			Help: "EROFS mounts, by where their data is: lazy (through the daemon) or local.",
		}, []string{"data"}),
		mountTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "faasnet_erofs_mount_seconds",
			Help:    "Time to check and mount one image, once its metadata is here.",
			Buckets: prometheus.ExponentialBuckets(1e-3, 2, 12), // 1 ms to 2 s
		}),
		aborts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "faasnet_fuse_aborts_total",
			Help: "FUSE connections aborted because an unmount did not end by itself.",
		}),
	}
	for _, op := range []string{"lookup", "getattr", "open", "opendir", "readdir", "statfs", "read"} {
		m.requests.WithLabelValues(op)
	}
	for _, reason := range []string{"deadline", "interrupt", "limit", "source"} {
		m.failures.WithLabelValues(reason)
	}
	for _, data := range []string{"local", "lazy"} {
		m.mounts.WithLabelValues(data)
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.requests, m.bytes, m.seconds, m.failures, m.mounts, m.mountTime, m.aborts} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) request(op string) { m.requests.WithLabelValues(op).Inc() }

func (m *metrics) failed(reason string) { m.failures.WithLabelValues(reason).Inc() }

func (m *metrics) read(n int, d time.Duration) {
	m.bytes.Add(float64(n))
	m.seconds.Observe(d.Seconds())
}

// reason says why a READ failed, for the metric.
func reason(ctx context.Context, err error) string {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "deadline"
	case ctx.Err() != nil:
		return "interrupt"
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline"
	default:
		return "source"
	}
}
