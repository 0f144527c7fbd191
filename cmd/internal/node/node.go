// Package node is one VM: it wires store, registry, fetcher and file system
// together and mounts runs of layers for the snapshotter. It is the only place
// that knows all of them.
package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/opencontainers/go-digest"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/faasnet/faasnet/cmd/internal/config"
	"github.com/faasnet/faasnet/fs"
	"github.com/faasnet/faasnet/fs/fetch"
	"github.com/faasnet/faasnet/fs/layer"
	"github.com/faasnet/faasnet/fs/registry"
	"github.com/faasnet/faasnet/fs/store"
)

const (
	// mountTimeout bounds the work for one mount, metadata included. Callers wait
	// less; the work goes on for the next one that asks.
	mountTimeout = 60 * time.Second
	// probeTimeout bounds the trial mount at start: containerd waits for the socket.
	probeTimeout = 10 * time.Second
)

// Node mounts runs of layers. It implements snapshotter.Mounter.
type Node struct {
	cfg     *config.Config
	store   *store.Store
	fetcher *fetch.Fetcher
	fleet   *fleet // nil: no other VMs
	origins *origins
	merged  merged
	starts  starts
	metrics *metrics

	driver  driver // nil where the kernel cannot mount
	lacking error  // why

	mountTimeout time.Duration
	prefetches   chan struct{} // a token for each under way

	ctx    context.Context //nolint:containedctx // ends with Close; of work that outlives its caller
	cancel context.CancelFunc
	work   sync.WaitGroup

	// retaining is read-locked while a claimed layer is made known, and from when a
	// mount's are until it is a flight or a mount, and locked while what nobody has
	// is forgotten. n.mu is taken under it.
	retaining sync.RWMutex
	recalled  bool // what an earlier daemon left is known; guarded by retaining
	lent      bool // what is not listed is known, since it is in use; guarded by retaining

	mu      sync.Mutex // guards the rest; of other locks only those of layers are taken under it
	closed  bool
	mounts  map[string]*shared            // by key of the run: the newest mount of it
	dirs    map[string]*shared            // by directory: all mounts
	flights map[string]*flight            // by key of the run: mounts being made
	users   map[string]map[string]*shared // by user and key of the run
	dying   []*shared                     // whose unmount failed
	listed  map[listing]struct{}          // of the last Retain, or asked for since
}

// Open makes a Node whose state is below root. It clears away what a dead daemon
// left mounted there and tries what this kernel can do; where it cannot mount,
// the Node works and claims nothing.
func Open(ctx context.Context, root string, cfg *config.Config, r prometheus.Registerer) (_ *Node, err error) {
	n := &Node{
		cfg: cfg, merged: merged{filepath.Join(root, "merged")},
		mountTimeout: mountTimeout, prefetches: make(chan struct{}, maxPrefetches),
		mounts: map[string]*shared{}, dirs: map[string]*shared{}, flights: map[string]*flight{}, users: map[string]map[string]*shared{}, listed: map[listing]struct{}{},
	}
	n.starts.off, n.starts.known = !cfg.Fetch.Start, map[digest.Digest]*startLayer{}
	n.ctx, n.cancel = context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
		}
	}()
	spool := filepath.Join(root, "tmp")
	for _, dir := range []string{n.merged.dir, spool} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	if n.metrics, err = newMetrics(r); err != nil {
		return nil, err
	}
	client, err := registry.New(registryOptions(cfg, spool, r))
	if err != nil {
		return nil, err
	}
	n.origins = newOrigins(client)
	if n.store, err = store.Open(filepath.Join(root, "store"), store.Options{
		MaxBytes: int64(cfg.Store.MaxBytes), MaxFlatBytes: int64(cfg.Store.MaxFlatBytes), Live: n.origins.has, Registerer: r,
	}); err != nil {
		return nil, err
	}
	if n.fleet, err = newFleet(ctx, cfg, r); err != nil {
		return nil, err
	}
	options := fetchOptions(cfg, r)
	n.fleet.tap(&options)
	if n.fetcher, err = fetch.New(n.store, n.fleet.origin(n.origins.source), options); err != nil {
		return nil, err
	}
	n.fleet.over(n.store, n.fetcher)
	return n, n.openDriver(ctx, filepath.Join(root, "fs"), r)
}

// openDriver needs the store's lock held: it takes away what is mounted in dir.
func (n *Node) openDriver(ctx context.Context, dir string, r prometheus.Registerer) error {
	stale, err := fs.Recover(dir)
	reportStale(ctx, stale)
	if err != nil {
		return fmt.Errorf("mounts of an earlier daemon: %w", err)
	}
	pctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if err := fs.Probe(pctx, dir); err != nil {
		n.lacking = err
		log.G(ctx).WithError(err).Error("this kernel cannot mount layers: images will be pulled and unpacked as usual")
		return nil
	}
	f, err := fs.New(ctx, dir, fs.Options{
		ReadTimeout: time.Duration(n.cfg.FUSE.ReadTimeout), MaxBackground: n.cfg.FUSE.MaxBackground, DirectIO: n.cfg.FUSE.DirectIO, Registerer: r,
	})
	if err != nil {
		return err
	}
	n.driver = erofs{f}
	return nil
}

// reportStale names the containers that the death of the daemon cost their files.
func reportStale(ctx context.Context, stale []fs.Stale) {
	for _, s := range stale {
		l := log.G(ctx).WithField("mount", s.Dir)
		if !s.Lazy || len(s.Users) == 0 {
			l.Info("mount of an earlier daemon detached, nobody needs it")
			continue
		}
		for _, root := range s.Users {
			l.WithField("root", root).WithField("container", container(root)).
				Warn("restart this container: the daemon that served its files is gone")
		}
	}
}

// container names the container whose root file system is at dir, as
// namespace/id; containerd's shims keep it in <state>/<namespace>/<id>/rootfs.
// What is mounted elsewhere goes by its directory.
func container(dir string) string {
	bundle, ok := strings.CutSuffix(dir, "/rootfs")
	if !ok || filepath.Base(filepath.Dir(filepath.Dir(bundle))) != "io.containerd.runtime.v2.task" {
		return dir
	}
	return filepath.Base(filepath.Dir(bundle)) + "/" + filepath.Base(bundle)
}

func fetchOptions(cfg *config.Config, r prometheus.Registerer) fetch.Options {
	o := fetch.Options{
		Deadline: time.Duration(cfg.Fetch.Deadline), Slots: cfg.Fetch.Slots, BlobSlots: cfg.Fetch.SlotsPerLayer,
		InFlightBytes: int64(cfg.Fetch.InFlightBytes), ReadAhead: cfg.Fetch.ReadAhead, FillSlots: cfg.Fetch.FillSlots,
		NoFill: !cfg.BackgroundFetch, Registerer: r,
	}
	if o.ReadAhead == 0 {
		o.ReadAhead = -1 // 0 is the default there
	}
	return o
}

func registryOptions(cfg *config.Config, spool string, r prometheus.Registerer) registry.Options {
	return registry.Options{
		HostsDirs: filepath.SplitList(cfg.Registry.ConfigPath), DockerConfig: cfg.Registry.DockerConfig,
		PlainHTTP: cfg.Registry.PlainHTTP, SkipVerify: cfg.Registry.SkipVerify, Proxy: http.ProxyFromEnvironment,
		Connect: time.Duration(cfg.Registry.ConnectTimeout), Idle: time.Duration(cfg.Registry.IdleTimeout), PerHost: cfg.Registry.PerHost,
		SpoolDir: spool, Registerer: r,
	}
}

// Run serves mounts and fills layers in the background until ctx ends, or until
// the FUSE mount is taken away from outside, which is an error.
func (n *Node) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return n.fetcher.Run(ctx) })
	if n.driver != nil {
		g.Go(func() error { return n.driver.Run(ctx) })
	}
	if n.fleet != nil {
		g.Go(func() error { return n.fleet.run(ctx, n.fetcher) })
	}
	return g.Wait()
}

// background runs work that outlives its caller but not the Node.
func (n *Node) background(work func(context.Context)) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	n.work.Go(func() { work(n.ctx) })
	return true
}

// Close ends all work and waits for it. Mounts that have users stay as they are,
// and the FUSE mount with them: containers read from local files and from the
// kernel's cache until the next daemon, which says who must be restarted. It may
// be called again.
func (n *Node) Close() error {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.cancel()
	n.work.Wait()
	var errs []error
	if n.driver != nil && !n.driver.InUse() {
		errs = append(errs, n.driver.Close())
	}
	errs = append(errs, n.fleet.close())
	if n.fetcher != nil {
		errs = append(errs, n.fetcher.Close())
	}
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	return errors.Join(errs...)
}

// Claim accepts the layers that this Node will serve without unpacking them.
func (n *Node) Claim(_ context.Context, labels map[string]string) error {
	info, above, err := n.admit(labels)
	if err != nil {
		return err
	}
	name, image := functionOf(labels, info), info.Image
	if above != nil {
		image = &above.Image
		name = functionOf(labels, layer.Info{Image: image})
	}
	switch {
	case n.fleet != nil && name != "":
		n.fleet.know(name, info)
		n.fleet.foresee(name, above)
		n.enter(name, image, above == nil)
	case image != nil:
		n.prefetch(*image)
	}
	return nil
}

// admit makes a claimed layer known, if it can be served, and those above it. What
// it says of them is returned if it is news.
func (n *Node) admit(labels map[string]string) (layer.Info, *layer.Above, error) {
	n.retaining.RLock()
	defer n.retaining.RUnlock()
	info, err := n.origins.parse(labels)
	if err == nil && n.driver == nil {
		err = fmt.Errorf("no file-backed EROFS: %w", errdefs.ErrFailedPrecondition)
	}
	if err != nil {
		return layer.Info{}, nil, err
	}
	n.list(labels, info)
	n.starts.ask(info)
	return info, n.foresee(labels, info), nil
}
