package treeclient

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/faasnet/faasnet/treeclient/treepb"
)

// function is one that this VM is in or wants to be in.
type function struct {
	name    string
	settled chan struct{} // closed when the first answer has been told

	// Guarded by Client.mu.
	wanted  bool   // by this VM; else it is the scheduler's doing
	at      string // address of the coordinator that keeps it
	place   Place
	refused string // why there is no place
	told    Place  // what Options.Changed knows
	queued  bool

	again   *time.Timer // asks anew, nil: not
	dormant bool        // ask anew when this VM is active

	// Since the last answer.
	hops        int      // redirects that were not followed at once
	unreachable []string // coordinators that could not be reached
	sentBy      []string // coordinators that sent it to others

	reported map[complaint]bool // at place.Epoch
}

// complaint is what a report says. One that a neighbour is slow says nothing of
// what it does next.
type complaint struct {
	vm    string
	fault Fault
}

func newFunction(name, at string) *function {
	return &function{name: name, at: at, settled: make(chan struct{}), reported: map[complaint]bool{}}
}

func (f *function) isSettled() bool {
	select {
	case <-f.settled:
		return true
	default:
		return false
	}
}

// set changes the place and has it told. c.mu is held.
func (c *Client) set(f *function, p Place) {
	if p.Epoch != f.place.Epoch {
		clear(f.reported)
	}
	f.place = p
	if !f.queued {
		f.queued = true
		c.queue = append(c.queue, f)
	}
	select {
	case c.queued <- struct{}{}:
	default:
	}
}

// notify calls Options.Changed until ctx ends.
func (c *Client) notify(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.queued:
		}
		for {
			c.mu.Lock()
			if len(c.queue) == 0 {
				c.mu.Unlock()
				break
			}
			f := c.queue[0]
			c.queue = c.queue[1:]
			f.queued = false
			old, now := f.told, f.place
			f.told = now
			c.mu.Unlock()
			if old.Epoch != now.Epoch || old.Token != now.Token {
				c.metrics.changes.Inc()
				c.opts.Changed(f.name, old, now)
			}
			if !f.isSettled() {
				close(f.settled) // only here
			}
		}
	}
}

// ask asks the coordinator that keeps f for a place. If there is no stream to
// it, the next one begins with that.
func (c *Client) ask(f *function) {
	held := c.opts.Held(f.name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.functions[f.name] != f {
		return
	}
	f.dropTimer()
	if c.full(f) {
		f.refused = fmt.Sprintf("the VM is in %d functions", c.most)
		c.askLater(f, f.at, jitter(askAgain))
		c.set(f, Place{})
		return
	}
	l := c.link(f.at, 0)
	if l == nil {
		return
	}
	j := &treepb.Join{Function: f.name, Blocks: held, Epoch: f.place.Epoch, Unreachable: f.unreachable}
	for _, s := range f.place.Stripes {
		j.Upstreams = append(j.Upstreams, s.Upstream.VM)
		for _, d := range s.Downstream {
			j.Downstream = append(j.Downstream, d.VM)
		}
	}
	l.say(&treepb.FromVM{Message: &treepb.FromVM_Join{Join: j}})
}

// askLater asks the coordinator at an address after a time, unless there is
// an answer before. c.mu is held.
func (c *Client) askLater(f *function, at string, after time.Duration) {
	f.dropTimer()
	var timer *time.Timer
	timer = time.AfterFunc(after, func() {
		c.mu.Lock()
		due := f.again == timer
		if due {
			f.at = at
		}
		c.mu.Unlock()
		if due {
			c.ask(f)
		}
	})
	f.again = timer
}

// dropTimer ends the wait for the time to ask anew. c.mu is held.
func (f *function) dropTimer() {
	if f.again != nil {
		f.again.Stop()
	}
	f.again, f.dormant = nil, false
}

// answered forgets what the way to the answer was. c.mu is held.
func (f *function) answered() {
	f.dropTimer()
	f.hops, f.unreachable, f.sentBy = 0, nil, nil
}

// full says that this VM is in as many functions as it may be, at all
// coordinators together. c.mu is held.
func (c *Client) full(f *function) bool {
	placed := 0
	for _, other := range c.functions {
		if other != f && len(other.place.Stripes) > 0 {
			placed++
		}
	}
	return c.most > 0 && placed >= c.most
}

// awake takes the functions that are to be asked for because this VM is
// active again.
func (c *Client) awake(load Load) (fs []*function) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if load.Read == c.load.Read && load.Relayed == c.load.Relayed {
		return nil
	}
	c.load = load
	for _, f := range c.functions {
		if f.dormant {
			fs = append(fs, f)
		}
	}
	return fs
}

// of returns the functions that a coordinator keeps. c.mu is held.
func (c *Client) of(address string) (fs []*function) {
	for _, f := range c.functions {
		if f.at == address {
			fs = append(fs, f)
		}
	}
	return fs
}

// remember adds an address to a few.
func remember(addresses []string, address string) []string {
	const enough = 8
	if slices.Contains(addresses, address) || len(addresses) == enough {
		return addresses
	}
	return append(addresses, address)
}

// jitter is between half of limit and limit.
func jitter(limit time.Duration) time.Duration { return limit/2 + rand.N(limit/2) }
