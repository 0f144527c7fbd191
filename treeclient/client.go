// Package treeclient keeps this VM's places in the function trees: it attends
// the coordinator, joins and leaves, and hands on what changes. It never
// stands in the way of a container: without a coordinator the last places
// hold, and a new function reads from the origin.
package treeclient

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"google.golang.org/grpc"

	"github.com/faasnet/faasnet/treeclient/treepb"
)

// DefaultWait bounds what a join adds to a container's start.
const DefaultWait = 500 * time.Millisecond

// Options of a Client. Coordinators, VM, Listen and Dial are required.
type Options struct {
	// Coordinators are host:port addresses, any of which may be asked. They
	// are written as the coordinators name each other.
	Coordinators []string
	// VM is this VM's name, unique in its tenant.
	VM string
	// Listen is where this VM's relay listens, host:port. Where the host is
	// unspecified the address towards the coordinator is announced.
	Listen string
	// Credential returns the join credential, read again at each connection.
	// The default is none.
	Credential func() (string, error)
	// Dial makes a connection to a coordinator. It does not block.
	Dial func(address string) (*grpc.ClientConn, error)
	// Wait bounds Join. The default is DefaultWait.
	Wait time.Duration
	// Changed is called with each new place of a function, in order, from one
	// goroutine a coordinator. A refusal or the loss of the place by order of
	// the coordinator is the zero Place.
	Changed func(function string, p Place)
	// Held returns how many blocks of the function's image this VM has. The
	// default is 0.
	Held func(function string) uint64
	// Load returns the bytes that this VM has relayed and read since it
	// started, and how many VMs it serves. The default is zero.
	Load func() (relayed, read uint64, children int)
}

// Client is safe for concurrent use.
type Client struct {
	opts Options

	mu        sync.Mutex // guards what follows and what the links say it does
	functions map[string]*function
	links     map[string]*link // by address of the coordinator
	home      int              // of Options.Coordinators: who is asked about new functions
	start     func(*link)      // set while Run runs
	tokenKey  []byte
	tenant    string
}

// function is one that this VM wants to be in.
type function struct {
	link    string // address of the coordinator that keeps it
	place   Place
	refused string
	settled chan struct{} // closed at the first answer
	once    sync.Once
}

// New returns a Client. It starts nothing.
func New(o Options) (*Client, error) {
	if len(o.Coordinators) == 0 || o.VM == "" || o.Listen == "" || o.Dial == nil {
		return nil, fmt.Errorf("treeclient: coordinators, VM, relay address and a dialer are needed: %w", errdefs.ErrInvalidArgument)
	}
	if o.Wait == 0 {
		o.Wait = DefaultWait
	}
	if o.Changed == nil {
		o.Changed = func(string, Place) {}
	}
	if o.Held == nil {
		o.Held = func(string) uint64 { return 0 }
	}
	if o.Load == nil {
		o.Load = func() (uint64, uint64, int) { return 0, 0, 0 }
	}
	return &Client{opts: o, functions: map[string]*function{}, links: map[string]*link{}}, nil
}

// Run attends coordinators until ctx ends; then this VM leaves its trees.
func (c *Client) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.mu.Lock()
	if c.start != nil {
		c.mu.Unlock()
		return fmt.Errorf("treeclient: runs already: %w", errdefs.ErrFailedPrecondition)
	}
	c.start = func(l *link) { wg.Go(func() { l.run(ctx) }) }
	c.link(c.homeAddress())
	for _, f := range c.functions {
		c.link(f.link)
	}
	c.mu.Unlock()
	<-ctx.Done()
	c.mu.Lock()
	c.start = nil
	clear(c.links)
	c.mu.Unlock()
	return nil
}

func (c *Client) homeAddress() string { return c.opts.Coordinators[c.home] }

// link returns the link to a coordinator, started if it is new; nil when the
// client does not run. c.mu is held.
func (c *Client) link(address string) *link {
	l := c.links[address]
	if l == nil && c.start != nil {
		l = &link{c: c, address: address}
		c.links[address] = l
		c.start(l)
	}
	return l
}

// ask lets the coordinator at address keep f. c.mu is held.
func (c *Client) ask(name string, f *function, address string) {
	f.link = address
	if l := c.link(address); l != nil {
		l.say(joins(name, f, c.opts.Held(name)))
	}
}

// Join asks for a place in the function's tree and waits for it, Options.Wait
// at most. On errdefs.ErrUnavailable the caller reads from the origin; the
// join goes on and Options.Changed tells when there is a place. On
// errdefs.ErrFailedPrecondition the coordinator has refused.
func (c *Client) Join(ctx context.Context, name string) (Place, error) {
	c.mu.Lock()
	f := c.functions[name]
	if f == nil {
		f = &function{settled: make(chan struct{})}
		c.functions[name] = f
		c.ask(name, f, c.homeAddress())
	}
	c.mu.Unlock()
	timer := time.NewTimer(c.opts.Wait)
	defer timer.Stop()
	select {
	case <-f.settled:
	case <-timer.C:
		return Place{}, fmt.Errorf("treeclient: no answer for %s within %v: %w", name, c.opts.Wait, errdefs.ErrUnavailable)
	case <-ctx.Done():
		return Place{}, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.refused != "" {
		return Place{}, fmt.Errorf("treeclient: no place for %s: %s: %w", name, f.refused, errdefs.ErrFailedPrecondition)
	}
	return f.place, nil
}

func joins(name string, f *function, held uint64) *treepb.FromVM {
	j := &treepb.Join{Function: name, Blocks: held, Epoch: f.place.Epoch}
	for _, s := range f.place.Stripes {
		j.Upstreams = append(j.Upstreams, s.Upstream.VM)
	}
	return &treepb.FromVM{Message: &treepb.FromVM_Join{Join: j}}
}

// Leave gives the place up. Leaving a function again is nothing.
func (c *Client) Leave(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.functions[name]
	if f == nil {
		return
	}
	delete(c.functions, name)
	if l := c.links[f.link]; l != nil {
		l.say(&treepb.FromVM{Message: &treepb.FromVM_Leave{Leave: &treepb.Leave{Function: name}}})
	}
}

// Place returns the last known place, which holds while the coordinator is
// away.
func (c *Client) Place(name string) (Place, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.functions[name]
	if f == nil || f.place.Epoch == 0 {
		return Place{}, false
	}
	return f.place, true
}

// Functions returns what this VM is in or wants to be in, sorted.
func (c *Client) Functions() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.functions))
}

// Identity returns the tenant of this VM and the key that checks tokens of
// other VMs, as the coordinator says; empty before the first welcome.
func (c *Client) Identity() (tenant string, tokenKey []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tenant, c.tokenKey
}

// Report tells the coordinator that a neighbour fails. It is lost when the
// coordinator is away: the coordinator finds out by itself then.
func (c *Client) Report(r *treepb.Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.functions[r.Function]
	if f == nil {
		return
	}
	if l := c.links[f.link]; l != nil {
		l.say(&treepb.FromVM{Message: &treepb.FromVM_Report{Report: r}})
	}
}
