// Package peer is the relay: how VMs give each other blocks. docs/relay.md
// specifies the protocol.
//
// A Relay is both halves of it, since a connection serves both sides. To other
// VMs it gives blocks that are stored or arriving here, and pushes those that
// begin to arrive to the VMs that follow. To the VM's own fetcher it is the list
// of those to ask before the origin. It decides nothing about trees: where this
// VM stands it is told by Place.
package peer

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/faasnet/faasnet/fs/block"
)

// Blocks is what a Relay serves from and delivers to: the VM's fetcher.
type Blocks interface {
	// Open returns a stored block as a file of its own, verified, that the
	// caller closes. Any error means that it cannot be had from here.
	Open(ctx context.Context, ref block.Ref) (*os.File, error)
	// Tap joins the flight of a block, or starts one, as urgently as
	// block.WishOf(ctx) says.
	Tap(ctx context.Context, ref block.Ref) (block.Tap, error)
	// Watch joins the flight of a block, if there is one, without keeping it up.
	// It does not wait.
	Watch(ref block.Ref) (block.Tap, error)
	// Offer takes a block that is being pushed, or says that it is not wanted. It
	// does not wait.
	Offer(ctx context.Context, ref block.Ref, by block.Sender) (block.Sink, error)
}

// Defaults of Options.
const (
	DefaultChildren  = 2 // a binary tree; over all stripes of a function
	DefaultMaxConns  = 512
	DefaultKeepAlive = 100 * time.Millisecond
	DefaultSilence   = time.Second // 500 ms over-fires on shallow queues
	DefaultConnect   = time.Second
)

// Options of a Relay. VM, Catalog and Identity are required.
type Options struct {
	// VM is this VM's name, unique in its tenant.
	VM string
	// Catalog says which blocks belong to which function.
	Catalog *Catalog
	// Identity returns the tenant of this VM and the keys that may have signed
	// tokens. It is asked for each token.
	Identity func() (tenant string, keys []ed25519.PublicKey)
	// Dial makes a connection. The default is TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// TLS, if set, makes both sides show certificates in which the VM's name is
	// a DNS name. It needs a certificate for each side, RootCAs and ClientCAs.
	TLS *tls.Config
	// Report is told of upstreams that fail, each time. It does not wait. The default
	// is nobody.
	Report func(Report)
	// Children bounds the VMs that follow one function here, over all stripes.
	// The default is DefaultChildren.
	Children int
	// Upload bounds what is sent to other VMs, in bytes a second. The default is
	// no bound.
	Upload int64
	// MaxConns bounds the connections that others make. The default is
	// DefaultMaxConns.
	MaxConns int
	// KeepAlive is how often somebody who waits for us hears that we wait
	// ourselves. The default is DefaultKeepAlive.
	KeepAlive time.Duration
	// Silence is after what time without a sign of life a VM that we wait for is
	// given up. The default is DefaultSilence.
	Silence time.Duration
	// Connect bounds the time to make a connection. The default is
	// DefaultConnect.
	Connect time.Duration
	// Registerer takes the metrics. The default is none.
	Registerer prometheus.Registerer
}

func (o *Options) setDefaults() error {
	if o.VM == "" || len(o.VM) > maxName || o.Catalog == nil || o.Identity == nil {
		return fmt.Errorf("peer: a name of at most %d bytes, a catalog and an identity are needed: %w", maxName, errdefs.ErrInvalidArgument)
	}
	if o.Children < 0 || o.Upload < 0 || o.MaxConns < 0 || o.KeepAlive < 0 || o.Silence < 0 || o.Connect < 0 {
		return fmt.Errorf("peer: negative limit: %w", errdefs.ErrInvalidArgument)
	}
	setDefault(&o.Children, DefaultChildren)
	setDefault(&o.MaxConns, DefaultMaxConns)
	setDefault(&o.KeepAlive, DefaultKeepAlive)
	setDefault(&o.Silence, DefaultSilence)
	setDefault(&o.Connect, DefaultConnect)
	if o.Silence < 2*o.KeepAlive {
		return fmt.Errorf("peer: silence %v is shorter than two keep-alives of %v: %w", o.Silence, o.KeepAlive, errdefs.ErrInvalidArgument)
	}
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", address)
		}
	}
	if o.Report == nil {
		o.Report = func(Report) {}
	}
	return nil
}

func setDefault[T comparable](p *T, v T) {
	if zero := *new(T); *p == zero {
		*p = v
	}
}

// Relay is one VM's part in relaying. It is a fetch.Upstreams, Blamer and Judge.
// It is safe for concurrent use.
type Relay struct {
	opts     Options
	uplink   *uplink
	waits    *waits
	metrics  metrics
	refusals *rate.Limiter                                            // of log lines
	crowded  *rate.Limiter                                            // of log lines about strangers
	holds    func(function string, ref block.Ref) (holds, known bool) // the catalog's

	// Set by Run before anything else runs.
	ctx    context.Context //nolint:containedctx // Run's; of all that the relay does
	blocks Blocks
	work   sync.WaitGroup

	// mu guards all below. Under it a neighbour's, a following's and a writer's
	// lock may be taken, of which none takes another one, and never a conn's.
	mu         sync.Mutex
	running    bool
	neighbours map[string]*neighbour // by VM
	places     map[string]*placed    // by function
	children   map[string]*children  // by function
	conns      map[*conn]struct{}
	guests     map[*guest]struct{} // connections that others made, from the first byte on
	unproven   []*guest            // of these, that have shown no token, the oldest first
}

// New returns a Relay. It starts nothing: until Run it knows nobody to ask.
func New(o Options) (*Relay, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	r := &Relay{
		opts: o, holds: o.Catalog.holds, uplink: newUplink(o.Upload), waits: newWaits(o.VM), refusals: rate.NewLimiter(10, 10), crowded: rate.NewLimiter(1, 10),
		neighbours: map[string]*neighbour{}, places: map[string]*placed{}, children: map[string]*children{}, conns: map[*conn]struct{}{}, guests: map[*guest]struct{}{},
	}
	if err := r.metrics.register(o.Registerer, r); err != nil {
		return nil, err
	}
	return r, nil
}

// Run serves other VMs on l, from b, and attends to neighbours, until ctx ends.
// It closes l and all connections. It is called once.
func (r *Relay) Run(ctx context.Context, l net.Listener, b Blocks) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errClosed)
	r.mu.Lock()
	if r.ctx != nil {
		r.mu.Unlock()
		return fmt.Errorf("peer: runs already: %w", errdefs.ErrFailedPrecondition)
	}
	r.ctx, r.blocks, r.running = ctx, b, true
	for _, p := range r.places {
		p.follow(r) //nolint:contextcheck // it lives under Run's, which is ours
	}
	r.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	err := r.accept(ctx, l)
	if !stop() && ctx.Err() != nil {
		err = nil
	}
	l.Close()
	cancel(errClosed)
	r.mu.Lock()
	r.running = false
	r.mu.Unlock()
	r.work.Wait()
	r.metrics.unregister(r.opts.Registerer)
	return err
}

// start runs work that ends with ctx, if Run runs.
func (r *Relay) start(work func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.startLocked(work)
}

func (r *Relay) startLocked(work func()) bool {
	if r.running {
		r.work.Go(work)
	}
	return r.running
}

// Children returns how many stripes of functions other VMs follow here.
func (r *Relay) Children() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, k := range r.children {
		n += len(k.followers)
	}
	return n
}

// Relayed returns the bytes of blocks sent to and received from other VMs.
func (r *Relay) Relayed() (sent, received int64) {
	for i := range r.uplink.bytes {
		sent += r.uplink.bytes[i].Load()
	}
	return sent, r.metrics.received.Load()
}

func (r *Relay) connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.conns)
}
