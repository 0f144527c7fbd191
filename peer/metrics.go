package peer

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are counted without prometheus and read at a scrape.
type metrics struct {
	received atomic.Int64 // bytes of blocks
	gets     atomic.Int64 // GETs that came
	pushes   atomic.Int64 // begun by us
	dropped  atomic.Int64 // pushes that a slow follower had no room for
	unwanted atomic.Int64 // pushes that we cancelled
	refusals atomic.Int64
	moved    atomic.Int64
	aborts   atomic.Int64 // transfers to us that their sender gave up
	rings    atomic.Int64
	silent   atomic.Int64 // neighbours that gave no sign of life
	dials    atomic.Int64 // that failed
	corrupt  atomic.Int64 // blocks with bad bytes under a good verdict
	slow     atomic.Int64 // neighbours that lost to others again and again
	quiet    atomic.Int64 // neighbours that owed us blocks and were quiet

	collectors []prometheus.Collector
}

func (m *metrics) register(r prometheus.Registerer, relay *Relay) error {
	if r == nil {
		return nil
	}
	var errs []error
	add := func(c prometheus.Collector) {
		if err := r.Register(c); err != nil {
			errs = append(errs, fmt.Errorf("peer: metrics: %w", err))
			return
		}
		m.collectors = append(m.collectors, c)
	}
	counter := func(name, help string, labels prometheus.Labels, n *atomic.Int64) {
		add(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "faasnet", Subsystem: "peer", Name: name, Help: help, ConstLabels: labels,
		}, func() float64 { return float64(n.Load()) }))
	}
	for i, name := range howNames {
		counter("sent_bytes_total", "Bytes of blocks sent to other VMs, by how.", prometheus.Labels{"how": name}, &relay.uplink.bytes[i])
	}
	counter("received_bytes_total", "Bytes of blocks received from other VMs.", nil, &m.received)
	counter("gets_total", "Blocks that other VMs asked for.", nil, &m.gets)
	counter("pushes_total", "Blocks pushed to followers.", nil, &m.pushes)
	counter("dropped_pushes_total", "Blocks not pushed since the follower is slow.", nil, &m.dropped)
	counter("unwanted_pushes_total", "Blocks pushed to us that we have or do not want.", nil, &m.unwanted)
	counter("refusals_total", "Requests without a right to what they ask for.", nil, &m.refusals)
	counter("moved_total", "Requests and followers sent elsewhere.", nil, &m.moved)
	counter("aborts_total", "Transfers to us that their sender gave up.", nil, &m.aborts)
	counter("rings_total", "Waits given up since VMs waited for each other.", nil, &m.rings)
	for fault, n := range map[Fault]*atomic.Int64{Unreachable: &m.dials, Silent: &m.silent, Corrupt: &m.corrupt, Slow: &m.slow, Quiet: &m.quiet} {
		counter("faults_total", "Failures of other VMs, by fault.", prometheus.Labels{"fault": fault.String()}, n)
	}
	add(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "faasnet", Subsystem: "peer", Name: "connections", Help: "Connections to other VMs.",
	}, func() float64 { return float64(relay.connections()) }))
	add(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "faasnet", Subsystem: "peer", Name: "followers", Help: "Stripes of functions that other VMs follow here.",
	}, func() float64 { return float64(relay.Children()) }))
	return errors.Join(errs...)
}

func (m *metrics) unregister(r prometheus.Registerer) {
	for _, c := range m.collectors {
		r.Unregister(c)
	}
}
