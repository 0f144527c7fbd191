package obs

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// NewRegistry gives a registry of metrics that has those of the process already.
func NewRegistry(revision string) (*prometheus.Registry, error) {
	r := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "faasnet_build_info",
		Help:        "Always 1; the labels say what runs.",
		ConstLabels: prometheus.Labels{"version": Version(revision), "go": runtime.Version()},
	})
	build.Set(1)
	for _, c := range []prometheus.Collector{
		build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return r, nil
}
