package coordinator

import (
	"fmt"
	"strings"
	"time"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

// All functions of this file are called with Coordinator.mu held.

// maxName bounds names of VMs and functions, in bytes.
const maxName = 256

// join gives the VM a place in the function's tree, or lets it wait for the
// others that come back from an earlier coordinator.
func (c *Coordinator) join(s *session, j *treepb.Join, now time.Time) {
	k := Key{s.tenant, j.Function}
	if j.Function == "" || len(j.Function) > maxName {
		s.refuse(short(j.Function), fmt.Sprintf("a function name has 1 to %d bytes", maxName), treepb.Refusal_AGAIN_NEVER)
		return
	}
	if owner := c.opts.Journal.Owner(k, j.Unreachable); owner != "" {
		if at := s.seats[j.Function]; at != nil {
			c.free(at, c.tell)
		}
		s.redirect(j.Function, owner)
		return
	}
	s.busy = now
	if at := s.seats[j.Function]; at != nil {
		at.blocks, at.inserted = j.Blocks, false
		if !at.suspended.IsZero() {
			s.refuse(j.Function, reported, treepb.Refusal_AGAIN_WAIT)
			return
		}
		c.tell(at)
		return
	}
	if len(s.seats) >= c.opts.MaxFunctions {
		s.refuse(j.Function, fmt.Sprintf("the VM is in %d functions", len(s.seats)), treepb.Refusal_AGAIN_LATER)
		c.metrics.refusals.Inc()
		return
	}
	g := c.grove(k, now)
	comesBack := j.Epoch > 0 && (j.Epoch < g.base || j.Epoch > g.epoch())
	g.outrun(j.Epoch, now)
	at := c.sit(s, g, j.Blocks, now)
	if c.awaits(g, comesBack, at, now) {
		c.arrive(at, j, now)
		return
	}
	c.place(at)
}

// sit gives the VM a seat without a place.
func (c *Coordinator) sit(s *session, g *grove, blocks uint64, now time.Time) *seat {
	at := &seat{session: s, grove: g, blocks: blocks, joined: now}
	s.seats[g.key.Function], g.seats[s.vm] = at, at
	c.metrics.joins.Inc()
	return at
}

// drop takes a VM out of all its trees and ends its stream. Again is nothing.
func (c *Coordinator) drop(s *session, why error) {
	if c.sessions[s.member] != s || c.closed {
		return
	}
	for _, at := range s.seats {
		c.free(at, c.tell)
	}
	delete(c.sessions, s.member)
	s.end(why)
}

// seat returns the seat of a VM, nil if it has none.
func (c *Coordinator) seat(k Key, vm tree.VM) *seat {
	if g := c.groves[k]; g != nil {
		return g.seats[vm]
	}
	return nil
}

// maxEcho bounds what is said of a name that is too long, in bytes.
const maxEcho = 4 * maxName

func short(name string) string { return strings.ToValidUTF8(name[:min(len(name), maxEcho)], "") }
