// Package coordinator keeps the function trees of a fleet: which VMs are
// alive, who reads from whom, and the tokens that let them. It is soft state:
// VMs come back with what they hold, and losing a coordinator never fails a
// read. It never carries image data.
package coordinator

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

// Key names a tree: knowing a digest is not enough to be in it.
type Key struct {
	Tenant   string
	Function string
}

// member names a VM: names are unique in a tenant.
type member struct {
	tenant string
	vm     tree.VM
}

// Coordinator keeps trees. It is safe for concurrent use.
type Coordinator struct {
	opts    Options
	metrics metrics
	watches watches
	refused *rate.Limiter // of log lines
	done    chan struct{} // closed when Run ends

	// mu guards what follows and everything in groves and sessions that does
	// not say otherwise. Nothing blocks under it: no network, no journal, no
	// signature, no log.
	mu        sync.Mutex
	closed    bool
	sessions  map[member]*session
	groves    map[Key]*grove
	settling  map[*grove]bool
	suspended map[*seat]bool
	queue     queue
	epoch     uint64 // no grove had a higher one
	swept     time.Time
}

// New returns a Coordinator. It starts nothing: Run does, and the gRPC server
// it is registered with.
func New(o Options) (*Coordinator, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	c := &Coordinator{
		opts:      o,
		refused:   rate.NewLimiter(10, 10),
		done:      make(chan struct{}),
		sessions:  map[member]*session{},
		groves:    map[Key]*grove{},
		settling:  map[*grove]bool{},
		suspended: map[*seat]bool{},
	}
	c.metrics = newMetrics()
	return c, c.metrics.register(o.Registerer, c)
}

const (
	maxMessage = 64 << 10 // of a VM, in bytes
	buffer     = 4 << 10  // a VM's assignment, about
	// maxStreams bounds the calls under way on one connection. A VM needs one.
	maxStreams = 16
	// idle is how long a connection may be without a call.
	idle = 10 * time.Second
)

// ServerOptions are what a gRPC server of VMs needs: messages are small, and
// connections end of hosts that have vanished, that say nothing, and that attend
// no more.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.StaticStreamWindowSize(maxMessage), // one that is measured costs a ping for each message
		grpc.StaticConnWindowSize(maxMessage),
		grpc.ReadBufferSize(buffer),
		grpc.WriteBufferSize(buffer),
		grpc.ConnectionTimeout(helloTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 5 * time.Second, MaxConnectionIdle: idle}),
	}
}

// RegisterMembership serves VMs on s.
func (c *Coordinator) RegisterMembership(s grpc.ServiceRegistrar) {
	treepb.RegisterMembershipServer(s, membership{c: c})
}

// RegisterScheduler serves schedulers on s. They may do as they like with
// every tenant's trees, so VMs must not reach s.
func (c *Coordinator) RegisterScheduler(s grpc.ServiceRegistrar) {
	treepb.RegisterSchedulerServer(s, scheduler{c: c})
}

// Run keeps trees and journal until ctx ends. Then all streams end, and the
// VMs keep their places until they attend another coordinator. A Coordinator
// runs once.
func (c *Coordinator) Run(ctx context.Context) error {
	defer c.close()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.opts.Journal.Run(ctx, c) })
	g.Go(func() error {
		tick := time.NewTicker(c.opts.Heartbeat / sweeps)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				c.sweep(ctx, time.Now())
			}
		}
	})
	return g.Wait()
}

// close ends all streams without taking anybody's place.
func (c *Coordinator) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	close(c.done)
	for _, s := range c.sessions {
		s.end(errStopping)
	}
}

// errStopping ends streams and watches when the coordinator stops.
var errStopping = fmt.Errorf("the coordinator stops: %w", errdefs.ErrUnavailable)
