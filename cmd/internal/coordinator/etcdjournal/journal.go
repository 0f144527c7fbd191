// Package etcdjournal keeps the trees of several coordinators in etcd, and
// spreads functions over those that live.
//
// Each coordinator holds a key with a lease. A function belongs to the live
// coordinator with the highest rendezvous hash, so the death of one moves only
// its own functions. The owner writes a function's tree at its own pace, and
// only while it holds its key; who becomes the owner reads what was written
// last, and then believes the VMs.
//
// Below the prefix stand
//
//	coordinators/ADDRESS        with the lease of the coordinator: the address and,
//	                            on a second line, that for schedulers
//	trees/TENANT/FUNCTION       the tree as its owner last wrote it
//
// where names are escaped as in URLs. While etcd is away, coordinators go on
// with the owners that they knew last.
package etcdjournal

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/faasnet/faasnet/cmd/internal/coordinator"
)

// Defaults of Options.
const (
	DefaultPrefix = "/faasnet/"
	DefaultTTL    = 3 * time.Second // etcd rounds up to 2 s at least
	DefaultPace   = time.Second
)

const (
	// opTimeout bounds one request to etcd.
	opTimeout = 2 * time.Second
	// stopTimeout bounds what is still written when the coordinator stops.
	stopTimeout = 3 * time.Second
	// retryPause is the time between tries while etcd is away.
	retryPause = 500 * time.Millisecond
)

// Options of a Journal. Endpoints and Self are required.
type Options struct {
	// Endpoints are the URLs of etcd's members.
	Endpoints []string
	// Self is the address at which VMs reach this coordinator.
	Self string
	// Scheduler is the address at which schedulers reach this coordinator from
	// other hosts; empty: they do not.
	Scheduler string
	// Prefix of all keys. The default is DefaultPrefix.
	Prefix string
	// TTL is after how long without a sign of life a coordinator's functions
	// move, in whole seconds. The default is DefaultTTL.
	TTL time.Duration
	// Pace is how often one tree is written at most. The default is
	// DefaultPace.
	Pace time.Duration
	// TLS secures the connections. The default is none.
	TLS *tls.Config
	// Registerer takes the metrics. The default is none.
	Registerer prometheus.Registerer
}

// Journal is a coordinator.Journal in etcd.
type Journal struct {
	opts    Options
	metrics metrics
	ring    atomic.Pointer[ring]
	faces   atomic.Pointer[map[string]string] // for schedulers, by address of the coordinator
	made    time.Time
	contact atomic.Int64 // when etcd last answered, in ns after made: the clock may be set

	mu    sync.Mutex // no other lock is taken under it
	dirty map[coordinator.Key]bool
	fence int64 // revision of the own key, 0: not held
	wake  chan struct{}
	lost  chan struct{} // has room for one: the own key is somebody else's
}

// New returns a Journal. It connects to nothing: Run does.
func New(o Options) (*Journal, error) {
	if len(o.Endpoints) == 0 || o.Self == "" {
		return nil, fmt.Errorf("etcd: endpoints and the own address are needed: %w", errdefs.ErrInvalidArgument)
	}
	if o.TTL < 0 || o.Pace < 0 {
		return nil, fmt.Errorf("etcd: negative time: %w", errdefs.ErrInvalidArgument)
	}
	o.Prefix = strings.TrimSuffix(cmp.Or(o.Prefix, DefaultPrefix), "/") + "/"
	o.TTL = max(cmp.Or(o.TTL, DefaultTTL), time.Second)
	o.Pace = cmp.Or(o.Pace, DefaultPace)
	j := &Journal{
		opts: o, made: time.Now(), dirty: map[coordinator.Key]bool{},
		wake: make(chan struct{}, 1), lost: make(chan struct{}, 1),
	}
	j.ring.Store(&ring{o.Self})
	j.faces.Store(&map[string]string{})
	j.metrics = newMetrics(j)
	return j, j.metrics.register(o.Registerer)
}

// Owner returns the address of the live coordinator that keeps k, "" for this
// one. While etcd does not answer, nobody knows who lives: then those count as
// dead that a VM has tried in vain.
func (j *Journal) Owner(k coordinator.Key, unreachable []string) string {
	if !j.blind() {
		unreachable = nil
	}
	if owner := j.ring.Load().owner(k, j.opts.Self, unreachable); owner != j.opts.Self {
		return owner
	}
	return ""
}

// Scheduler returns where schedulers reach a live coordinator.
func (j *Journal) Scheduler(owner string) string { return (*j.faces.Load())[owner] }

func (j *Journal) answered() { j.contact.Store(int64(time.Since(j.made))) }

func (j *Journal) blind() bool {
	return time.Since(j.made)-time.Duration(j.contact.Load()) > j.opts.TTL
}

// Changed has the tree of k written soon.
func (j *Journal) Changed(k coordinator.Key) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.dirty[k] = true
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// Run keeps this coordinator in the ring and its trees in etcd until ctx ends;
// then it writes what is left and leaves the ring, so that others take over at
// once.
func (j *Journal) Run(ctx context.Context, t coordinator.Trees) (err error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            j.opts.Endpoints,
		TLS:                  j.opts.TLS,
		DialKeepAliveTime:    2 * time.Second,
		DialKeepAliveTimeout: 2 * time.Second,
		Logger:               zap.NewNop(), // what fails is said here
	})
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	defer func() { err = errors.Join(err, ignoreCanceled(client.Close())) }()
	r := &run{Journal: j, etcd: client, trees: t}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.again(ctx, "lease", r.hold) })
	g.Go(func() error { return r.again(ctx, "coordinators", r.follow) })
	g.Go(func() error { r.save(ctx); return nil })
	if err := g.Wait(); err != nil {
		return err
	}
	r.leave(context.WithoutCancel(ctx))
	return nil
}

func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// run is a Journal while it runs.
type run struct {
	*Journal
	etcd  *clientv3.Client
	trees coordinator.Trees

	restored bool // all own trees have been read once; of the goroutine that follows
}

// again does something that ends only with etcd's failure, again and again.
func (r *run) again(ctx context.Context, what string, do func(context.Context) error) error {
	failing := false
	for {
		err := do(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it ends because we stop
		}
		r.metrics.failures.Inc()
		if !failing || !r.blind() {
			log.G(ctx).WithError(err).WithField("what", what).Warn("etcd fails, trees are kept in memory")
		}
		failing = true
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retryPause):
		}
	}
}

func (j *Journal) memberKey() string {
	return j.opts.Prefix + "coordinators/" + url.PathEscape(j.opts.Self)
}

func (j *Journal) treeKey(k coordinator.Key) string {
	return j.opts.Prefix + "trees/" + url.PathEscape(k.Tenant) + "/" + url.PathEscape(k.Function)
}

// keyOf is the inverse of treeKey.
func (j *Journal) keyOf(s string) (coordinator.Key, bool) {
	tenant, function, ok := strings.Cut(strings.TrimPrefix(s, j.opts.Prefix+"trees/"), "/")
	if !ok {
		return coordinator.Key{}, false
	}
	t, terr := url.PathUnescape(tenant)
	f, ferr := url.PathUnescape(function)
	return coordinator.Key{Tenant: t, Function: f}, terr == nil && ferr == nil && t != "" && f != ""
}
