package coordinator

import (
	"context"
	"slices"
	"time"

	"github.com/containerd/log"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

// What a report about a VM that lives does. A VM whose own network fails
// accuses everybody: it has credit for a few.
const (
	credit      = 4
	creditEvery = 10 * time.Second
	// blameTime is how long a report is remembered. A second VM that reports
	// the same one within it keeps it out of trees for parole, doubled each
	// time.
	blameTime = 30 * time.Second
	parole    = 30 * time.Second
	maxParole = 5 * time.Minute
)

// unheard is what is logged when a VM is dropped that a neighbour misses, too.
const unheard = "neither a VM nor we hear its neighbour any more, that is gone"

// reported is what a VM that was taken out is told.
const reported = "another VM cannot read from this one"

// blame is what others say of a VM.
type blame struct {
	by     tree.VM // who did last
	at     time.Time
	parole time.Duration // the last one, 0 if none
}

// report takes the accused out of the tree at once. It is placed again, last,
// when it has been heard, and later when several report it; if it is dead, its
// own silence takes it out of all its trees. c.mu is held; what is returned is
// to be logged without it.
func (c *Coordinator) report(s *session, r *treepb.Report, now time.Time) (logged string) {
	k := Key{s.tenant, r.Function}
	g, by := c.groves[k], c.seat(k, s.vm)
	if g == nil || by == nil {
		return ""
	}
	if g.back != nil {
		delete(g.back.missing, tree.VM(r.Vm))
	}
	accused := g.seats[tree.VM(r.Vm)]
	if accused == nil || !neighbours(g.tree, s.vm, accused.session.vm) {
		return ""
	}
	c.metrics.report(r.Fault)
	gone := r.Fault == treepb.Report_FAULT_UNREACHABLE || r.Fault == treepb.Report_FAULT_SILENT
	if gone && c.overdue(accused.session, now) {
		c.drop(accused.session, errSilent)
		return unheard
	}
	if !s.credit.AllowN(now, 1) {
		return "a VM reports many neighbours that live, nothing is done"
	}
	c.suspend(accused, s.vm, now)
	if r.Fault == treepb.Report_FAULT_SLOW {
		c.resume(accused)
	}
	return "a VM reports its neighbour"
}

// doubt drops a VM of which a neighbour hears nothing if we miss its heartbeat,
// too. Else nothing comes of it, and nothing if it may be us who did not listen.
// c.mu is held; it reports whether the VM is gone.
func (c *Coordinator) doubt(s *session, q *treepb.Quiet, now time.Time) (gone bool) {
	k := Key{s.tenant, q.Function}
	g, accused := c.groves[k], c.seat(k, tree.VM(q.Vm))
	if accused == nil || !neighbours(g.tree, s.vm, accused.session.vm) {
		return false
	}
	c.metrics.reports.WithLabelValues(quiet).Inc()
	listening := now.Sub(c.swept) <= c.opts.Heartbeat/2
	gone = listening && c.overdue(accused.session, now)
	if gone {
		c.drop(accused.session, errSilent)
	}
	return gone
}

// overdue reports whether a heartbeat is overdue.
func (c *Coordinator) overdue(s *session, now time.Time) bool {
	return now.Sub(s.heard) > c.opts.Heartbeat*5/4
}

func (c *Coordinator) suspend(at *seat, by tree.VM, now time.Time) {
	b := &at.session.reports
	at.until = now
	if b.by != tree.Origin && b.by != by && now.Sub(b.at) < blameTime+b.parole {
		b.parole = min(max(parole, 2*b.parole), maxParole)
		at.until = now.Add(b.parole)
	} else if now.Sub(b.at) > blameTime+b.parole {
		b.parole = 0
	}
	b.by, b.at = by, now
	c.displace(at, c.tell)
	at.suspended = now
	c.suspended[at] = true
	at.session.refuse(at.grove.key.Function, reported, treepb.Refusal_AGAIN_WAIT)
}

// resume places one that was suspended.
func (c *Coordinator) resume(at *seat) {
	at.suspended = time.Time{}
	delete(c.suspended, at)
	if at.grove.back == nil {
		c.place(at)
	}
}

// neighbours reports whether a reads from b, or from one that reads from b, or
// b from a, so that a VM can accuse only those whom it deals with.
func neighbours(t tree.Tree, a, b tree.VM) bool {
	if a == b || !t.Has(a) || !t.Has(b) {
		return false
	}
	for s := range t.Stripes() {
		if t.Upstream(b, s) == a || slices.Contains(tree.Ancestors(t, a, s), b) {
			return true
		}
	}
	return false
}

func logReport(ctx context.Context, r *treepb.Report, what string) {
	log.G(ctx).WithField("function", r.Function).WithField("neighbour", r.Vm).WithField("fault", r.Fault.String()).Warn(what)
}
