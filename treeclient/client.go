// Package treeclient keeps this VM's places in the function trees: it attends
// the coordinator, joins and leaves, and hands on what changes. It never
// stands in the way of a container: without a coordinator the last places
// hold, and a new function reads from the origin.
package treeclient

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/treeclient/treepb"
)

// Client is safe for concurrent use.
type Client struct {
	opts    Options
	metrics metrics

	// mu guards what follows, and everything in functions and links that does
	// not say otherwise. No function of Options is called under it.
	mu        sync.Mutex
	functions map[string]*function
	links     map[string]*link // by address of the coordinator
	home      int              // of Options.Coordinators: who is asked about new functions
	start     func(*link)      // set while Run runs
	queue     []*function      // whose change is to be told
	queued    chan struct{}    // has room for one: queue is not empty
	keys      []ed25519.PublicKey
	tenant    string
	most      int // functions that a VM may be in, 0: not known
	load      Load
	away      map[string][]string // why coordinators are away, as far as it was logged
}

// New returns a Client. It starts nothing.
func New(o Options) (*Client, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	c := &Client{opts: o, functions: map[string]*function{}, links: map[string]*link{}, away: map[string][]string{}, queued: make(chan struct{}, 1)}
	c.metrics = newMetrics(c)
	return c, c.metrics.register(o.Registerer)
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
	c.start = func(l *link) {
		ctx, cancel := context.WithCancel(ctx)
		l.stop = cancel
		wg.Go(func() { defer cancel(); l.run(ctx) })
	}
	c.link(c.homeAddress(), 0)
	for _, f := range c.functions {
		f.at = c.homeAddress()
	}
	c.mu.Unlock()
	wg.Go(func() { c.notify(ctx) })
	<-ctx.Done()
	c.mu.Lock()
	c.start = nil
	clear(c.links)
	c.mu.Unlock()
	return nil
}

// Join asks for a place in the function's tree and waits for it, Options.Wait
// at most and not at all while no coordinator can be reached. On
// errdefs.ErrUnavailable the caller reads from the origin; the join goes on
// and Options.Changed tells when there is a place. On
// errdefs.ErrFailedPrecondition the coordinator has refused. What it returns
// has been told to Options.Changed.
func (c *Client) Join(ctx context.Context, name string) (Place, error) {
	c.mu.Lock()
	f := c.functions[name]
	if f == nil || f.dormant {
		f = newFunction(name, c.homeAddress())
		c.functions[name] = f
	}
	asks := !f.wanted
	f.wanted = true
	l, wait := c.links[f.at], c.wait(f)
	c.mu.Unlock()
	if asks {
		c.ask(f)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-f.settled:
	case <-timer.C:
		if !f.isSettled() {
			c.mu.Lock()
			if l != nil {
				l.overdue = true
			}
			c.mu.Unlock()
			return Place{}, fmt.Errorf("treeclient: no place in %s yet: %w", name, errdefs.ErrUnavailable)
		}
	case <-ctx.Done():
		return Place{}, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.refused != "" {
		return Place{}, fmt.Errorf("treeclient: no place in %s: %s: %w", name, f.refused, errdefs.ErrFailedPrecondition)
	}
	return f.place, nil
}

// wait is how long an answer about f is worth waiting for: not at all from a
// coordinator that is away, or that has not answered the last time either.
// c.mu is held.
func (c *Client) wait(f *function) time.Duration {
	l := c.links[f.at]
	if l == nil || l.overdue || l.out == nil && l.failures > 0 {
		return 0
	}
	return c.opts.Wait
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
	if f.refused == "" {
		f.refused = "it was left"
	}
	c.set(f, Place{})
	if l := c.links[f.at]; l != nil {
		l.say(&treepb.FromVM{Message: &treepb.FromVM_Leave{Leave: &treepb.Leave{Function: name}}})
		c.trim(l)
	}
	f.dropTimer()
	for _, other := range c.functions { // there is room for one more
		if other.again != nil && other.hops == 0 {
			other.again.Reset(0)
		}
	}
}

// Place returns the last known place, which holds while the coordinator is
// away.
func (c *Client) Place(name string) (Place, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.functions[name]
	if f == nil || len(f.place.Stripes) == 0 {
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

// Identity returns the tenant of this VM and the keys that check tokens of
// other VMs, of all coordinators that it has met; empty before the first
// welcome.
func (c *Client) Identity() (tenant string, keys []ed25519.PublicKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tenant, slices.Clone(c.keys)
}

// Report tells the coordinator that a neighbour fails, each fault of it once for
// each epoch, but Quiet each time. since is when that began of which the fault is
// concluded. It is lost while the coordinator is away, which finds out by itself
// then, and if it began before the coordinator heard from us: it may be our own
// network that failed.
func (c *Client) Report(name string, stripe int, vm string, fault Fault, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.functions[name]
	why := complaint{vm, fault}
	if f == nil || f.reported[why] {
		return
	}
	l := c.links[f.at]
	if l == nil || l.out == nil || since.Before(l.opened) {
		return
	}
	if fault == Quiet {
		l.say(&treepb.FromVM{Message: &treepb.FromVM_Quiet{Quiet: &treepb.Quiet{Function: name, Vm: vm}}})
		return
	}
	f.reported[why] = true
	c.metrics.reports.Inc()
	l.say(&treepb.FromVM{Message: &treepb.FromVM_Report{Report: &treepb.Report{
		Function: name, Stripe: uint32(stripe), Vm: vm, Fault: fault.wire(),
	}}})
}
