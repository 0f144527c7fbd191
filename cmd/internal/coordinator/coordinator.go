// Package coordinator keeps the function trees of a fleet: which VMs are
// alive, who reads from whom, and the tokens that let them. It is soft state:
// VMs come back with what they hold, and losing a coordinator never fails a
// read. It never carries image data.
package coordinator

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/peer/identity"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

// Defaults of Options.
const (
	DefaultHeartbeat    = 300 * time.Millisecond // repair begins before children give up
	DefaultMaxFunctions = 20                     // of one VM, paper section 4
	DefaultIdle         = 15 * time.Minute       // paper section 4
	DefaultTokenTTL     = 10 * time.Minute
	DefaultSettle       = 500 * time.Millisecond
	DefaultTenant       = "default" // where no credentials are asked for
)

// missed is how many heartbeats a live VM may miss.
const missed = 3

// Options of a Coordinator. Key is required.
type Options struct {
	// Form of the trees. The default is tree.Striped.
	Form tree.Form
	// Heartbeat is how often a VM sends one. The default is DefaultHeartbeat.
	Heartbeat time.Duration
	// MaxFunctions bounds the trees that a VM is in. The default is
	// DefaultMaxFunctions.
	MaxFunctions int
	// Idle is after how long a VM that neither reads nor relays leaves its
	// trees. The default is DefaultIdle.
	Idle time.Duration
	// Settle is how long VMs that come back to a new coordinator are gathered
	// before the first gets its place, so that those with most blocks stand
	// near the root. The default is DefaultSettle.
	Settle time.Duration
	// TokenTTL is how long a function token is good. The default is
	// DefaultTokenTTL.
	TokenTTL time.Duration
	// Key signs function tokens.
	Key ed25519.PrivateKey
	// Credentials checks join credentials. Without keys none are asked for
	// and every VM is of DefaultTenant.
	Credentials identity.Verifier
	// AllowLoopback accepts VMs that announce a loopback address, for fleets
	// on one host without namespaces.
	AllowLoopback bool
	// Journal keeps trees over restarts. The default keeps nothing.
	Journal Journal
	// Registerer takes the metrics. The default is none.
	Registerer prometheus.Registerer
}

func (o *Options) setDefaults() error {
	if len(o.Key) != ed25519.PrivateKeySize {
		return fmt.Errorf("coordinator: a key of %d bytes, want %d: %w", len(o.Key), ed25519.PrivateKeySize, errdefs.ErrInvalidArgument)
	}
	if o.Heartbeat < 0 || o.MaxFunctions < 0 || o.Idle < 0 || o.Settle < 0 || o.TokenTTL < 0 {
		return fmt.Errorf("coordinator: negative limit: %w", errdefs.ErrInvalidArgument)
	}
	setDefault(&o.Form, tree.Striped)
	setDefault(&o.Heartbeat, DefaultHeartbeat)
	setDefault(&o.MaxFunctions, DefaultMaxFunctions)
	setDefault(&o.Idle, DefaultIdle)
	setDefault(&o.Settle, DefaultSettle)
	setDefault(&o.TokenTTL, DefaultTokenTTL)
	if o.Journal == nil {
		o.Journal = nothing{}
	}
	_, err := tree.New(o.Form)
	return err
}

func setDefault[T comparable](p *T, v T) {
	if zero := *new(T); *p == zero {
		*p = v
	}
}

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

	// mu guards what follows and everything in groves and sessions that does
	// not say otherwise. Nothing blocks under it: no network, no journal.
	mu       sync.Mutex
	sessions map[member]*session
	groves   map[Key]*grove
}

// New returns a Coordinator. It starts nothing: Run does, and the gRPC server
// it is registered with.
func New(o Options) (*Coordinator, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	c := &Coordinator{
		opts:     o,
		sessions: map[member]*session{},
		groves:   map[Key]*grove{},
	}
	if err := c.metrics.register(o.Registerer, c); err != nil {
		return nil, err
	}
	return c, nil
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

// Run drops the dead and the idle and renews tokens until ctx ends.
func (c *Coordinator) Run(ctx context.Context) error {
	tick := time.NewTicker(c.opts.Heartbeat / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			c.sweep(now)
		}
	}
}
