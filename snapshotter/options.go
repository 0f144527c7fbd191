package snapshotter

import (
	"time"

	"github.com/containerd/containerd/v2/plugins/snapshots/overlay"
	"github.com/prometheus/client_golang/prometheus"
)

// Opt changes a default of New.
type Opt func(*config)

type config struct {
	claimWait   time.Duration // a Claim, which has no reason to wait
	prepareWait time.Duration // mounts under a container's Prepare or a View
	unpackWait  time.Duration // mounts under the Prepare of a layer that will be unpacked
	mountsWait  time.Duration // mounts under Mounts
	releaseWait time.Duration // a Release or Retain, also for a turn before it
	closeWait   time.Duration // calls in progress at Close
	registerer  prometheus.Registerer
	overlay     []overlay.Opt
}

func defaults() config {
	return config{
		claimWait:   time.Second,
		prepareWait: 1500 * time.Millisecond,
		unpackWait:  5 * time.Second,
		mountsWait:  30 * time.Second,
		releaseWait: 5 * time.Second,
		closeWait:   10 * time.Second,
	}
}

// WithPrepareWait bounds how long Prepare of a container and View wait for the layers below to be mounted; containerd may hold locks of
// the whole host meanwhile. The default is 1.5 s.
func WithPrepareWait(d time.Duration) Opt { return func(c *config) { c.prepareWait = d } }

// WithUnpackWait bounds the same for Prepare of an ordinary layer on remote ones. It happens once for each pull and the pull fails when
// time is up. The default is 5 s.
func WithUnpackWait(d time.Duration) Opt { return func(c *config) { c.unpackWait = d } }

// WithMountsWait bounds how long Mounts, which containerd calls without its locks, waits for the layers below. The default is 30 s.
func WithMountsWait(d time.Duration) Opt { return func(c *config) { c.mountsWait = d } }

// WithRegisterer registers the snapshotter's metrics. The default is none.
func WithRegisterer(r prometheus.Registerer) Opt { return func(c *config) { c.registerer = r } }

// WithRemapIDs makes mounts of snapshots that have id mapping labels idmapped mounts. It belongs with the capability "remap-ids" of the
// proxy plugin. The default is off: containerd then changes owners by itself.
func WithRemapIDs() Opt {
	return func(c *config) { c.overlay = append(c.overlay, overlay.WithRemapIDs) }
}
