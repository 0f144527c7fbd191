package fetch

import (
	"context"
	"sync"

	"github.com/faasnet/faasnet/fs/block"
)

// Priority orders those who wait for a slot.
type Priority int

// Priorities, the most urgent first.
const (
	OnDemand Priority = iota // a container waits in read(2)
	Relay                    // a downstream VM asked
	Order                    // will be read soon: start-up order, read-ahead
	Fill                     // the rest of the layer
	priorities
)

// urgency is what a peer is told of it.
func (p Priority) urgency() block.Urgency {
	switch p {
	case OnDemand, Relay:
		return block.Now
	case Order:
		return block.Soon
	default:
		return block.Later
	}
}

// relayed is the priority of what a peer wants so urgently.
func relayed(u block.Urgency) Priority {
	switch u {
	case block.Now:
		return Relay
	case block.Soon:
		return Order
	default:
		return Fill
	}
}

type priorityKey struct{}

// WithPriority says how urgent the reads under ctx are. The default is
// OnDemand.
func WithPriority(ctx context.Context, p Priority) context.Context {
	return context.WithValue(ctx, priorityKey{}, min(max(p, OnDemand), Fill))
}

func priorityOf(ctx context.Context) Priority {
	p, _ := ctx.Value(priorityKey{}).(Priority)
	return p
}

// urgency is the priority of work in progress: that of the most urgent of those
// who ever joined. The work passes it on to what it itself waits for, by follow.
type urgency struct {
	mu    sync.Mutex // no other lock is taken under it but another urgency's or a gate's below it
	prio  Priority
	below func(Priority)
}

func newUrgency(p Priority) *urgency { return &urgency{prio: p} }

func (u *urgency) get() Priority {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.prio
}

// raise makes the work at least as urgent as p.
func (u *urgency) raise(p Priority) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if p < u.prio {
		u.prio = p
		if u.below != nil {
			u.below(p)
		}
	}
}

// follow calls f with the priority as it is and whenever it rises, until the
// returned function is called.
func (u *urgency) follow(f func(Priority)) (stop func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.below = f
	f(u.prio)
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.below = nil
	}
}
