package coordinator

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/log"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

// All functions of this file are called with Coordinator.mu held.

// join gives s a place in the function's tree. A VM that comes back to a
// grove that has just come to life waits until the others are back too.
func (c *Coordinator) join(s *session, j *treepb.Join, now time.Time) {
	if j.Function == "" || len(j.Function) > maxFunctionName {
		s.refuse(j.Function, "a function name has 1 to 256 bytes", false)
		return
	}
	if owner := c.opts.Journal.Owner(Key{s.tenant, j.Function}); owner != "" {
		s.outbox.post(j.Function, &treepb.ToVM{Message: &treepb.ToVM_Redirect{
			Redirect: &treepb.Redirect{Function: j.Function, Address: owner},
		}})
		return
	}
	if !s.functions[j.Function] && len(s.functions) >= c.opts.MaxFunctions {
		s.refuse(j.Function, fmt.Sprintf("the VM is in %d functions", len(s.functions)), true)
		c.metrics.refusals.Inc()
		return
	}
	s.functions[j.Function] = true
	s.busy = now
	g := c.grove(Key{s.tenant, j.Function}, now)
	g.base = max(g.base, j.Epoch+1) // a clock that went back
	switch {
	case g.tree.Has(s.vm):
		g.members[s.vm].blocks = j.Blocks
		c.tell(g, s.vm, now)
	case j.Epoch > 0 && (g.tree.Len() == 0 || len(g.waiting) > 0):
		if len(g.waiting) == 0 {
			g.settle = now.Add(c.opts.Settle)
		}
		if !slices.ContainsFunc(g.waiting, func(a arrival) bool { return a.vm == s.vm }) {
			g.waiting = append(g.waiting, arrival{s.vm, j.Blocks})
		}
	default:
		c.place(g, s.vm, j.Blocks, now) // cannot fail: the name is new and not empty
	}
}

// maxFunctionName bounds what a VM can make us keep, in bytes.
const maxFunctionName = 256

func (c *Coordinator) leave(s *session, function string, now time.Time) {
	if !s.functions[function] {
		return
	}
	delete(s.functions, function)
	delete(s.outbox.pending, function)
	g := c.groves[Key{s.tenant, function}]
	if g == nil {
		return
	}
	g.waiting = slices.DeleteFunc(g.waiting, func(a arrival) bool { return a.vm == s.vm })
	c.displace(g, s.vm, now)
	c.forgetEmpty(g)
}

// report moves the accused to the end of the tree, where it serves nobody; if
// it is dead, its own silence or its lost stream takes it out soon. One that
// has not been heard for a heartbeat goes at once.
func (c *Coordinator) report(ctx context.Context, s *session, r *treepb.Report, now time.Time) {
	c.metrics.reports.WithLabelValues(r.Fault.String()).Inc()
	g := c.groves[Key{s.tenant, r.Function}]
	accused := c.sessions[member{s.tenant, tree.VM(r.Vm)}]
	if g == nil || accused == nil || !neighbours(g.tree, s.vm, accused.vm) {
		return
	}
	log.G(ctx).WithField("function", r.Function).WithField("neighbour", r.Vm).WithField("fault", r.Fault.String()).Warn("a VM reports its neighbour")
	if r.Fault == treepb.Report_FAULT_UNREACHABLE && now.Sub(accused.heard) > c.opts.Heartbeat {
		accused.end(errSilent)
		c.dropLocked(accused, now)
		return
	}
	blocks := g.members[accused.vm].blocks
	if g.tree.Len() == 1 {
		return
	}
	c.displace(g, accused.vm, now)
	c.place(g, accused.vm, blocks, now) // cannot fail: it has just left
}

// neighbours reports whether a reads from b or b from a, so that a VM can
// accuse only those whom it deals with.
func neighbours(t tree.Tree, a, b tree.VM) bool {
	if !t.Has(a) || !t.Has(b) {
		return false
	}
	for s := range t.Stripes() {
		if slices.Contains(tree.Ancestors(t, a, s), b) || t.Upstream(b, s) == a {
			return true
		}
	}
	return false
}

// dropLocked takes a VM out of all its trees. Again is nothing.
func (c *Coordinator) dropLocked(s *session, now time.Time) {
	if c.sessions[s.member] != s {
		return
	}
	for f := range s.functions {
		c.leave(s, f, now)
	}
	delete(c.sessions, s.member)
}

// sweep drops the dead, sends the idle home, places who waited and renews
// tokens.
func (c *Coordinator) sweep(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.sessions {
		switch {
		case now.Sub(s.heard) > missed*c.opts.Heartbeat:
			s.end(errSilent)
			c.dropLocked(s, now)
			c.metrics.silent.Inc()
		case now.Sub(s.busy) > c.opts.Idle:
			for f := range s.functions {
				c.leave(s, f, now)
				s.refuse(f, "idle", false)
			}
		}
	}
	for _, g := range c.groves {
		if len(g.waiting) > 0 && now.After(g.settle) {
			c.seatWaiting(g, now)
		}
		for vm, seat := range g.members {
			if seat.expires.Sub(now) < c.opts.TokenTTL/2 {
				c.tell(g, vm, now)
			}
		}
	}
}
