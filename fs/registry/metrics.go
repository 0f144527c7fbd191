package registry

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of one Client. Labels are bounded: a class of status, a result.
type metrics struct {
	requests *prometheus.CounterVec // by class
	bytes    prometheus.Counter
	blocks   *prometheus.CounterVec // by result
	retries  prometheus.Counter
	tokens   *prometheus.CounterVec // by result
	seconds  prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	opts := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "faasnet", Subsystem: "registry", Name: name, Help: help}
	}
	m := &metrics{
		requests: prometheus.NewCounterVec(opts("requests_total", "HTTP requests to registries and what they lead to, by class of status."), []string{"class"}),
		bytes:    prometheus.NewCounter(opts("received_bytes_total", "Bytes of blobs received from registries.")),
		blocks:   prometheus.NewCounterVec(opts("blocks_total", "Blocks asked of registries, by result."), []string{"result"}),
		retries:  prometheus.NewCounter(opts("retries_total", "Rounds over all hosts after the first.")),
		tokens:   prometheus.NewCounterVec(opts("token_requests_total", "Requests for tokens, by result."), []string{"result"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "faasnet", Subsystem: "registry", Name: "block_seconds", Help: "Time to read one block from registries.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}),
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.requests, m.bytes, m.blocks, m.retries, m.tokens, m.seconds} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// class is 2xx, 3xx, ...
func class(status int) string { return strconv.Itoa(status/100) + "xx" }

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}
