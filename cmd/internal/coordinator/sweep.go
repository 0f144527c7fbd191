package coordinator

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"

	"github.com/faasnet/faasnet/treeclient/treepb"
)

// A VM is gone three heartbeats after its last one at the latest: it is
// looked for sweeps times a heartbeat, and missed when the next look would
// come too late.
const (
	missed = 3
	sweeps = 4
)

var errSilent = fmt.Errorf("no heartbeat: %w", errdefs.ErrUnavailable)

// sweep drops the dead, sends the idle home, and places who has waited.
func (c *Coordinator) sweep(ctx context.Context, now time.Time) {
	c.mu.Lock()
	pause := now.Sub(c.swept)
	slept := !c.swept.IsZero() && pause > c.opts.Heartbeat
	c.swept = now
	var silent int
	for _, s := range c.sessions {
		switch {
		case slept: // it was us who did not listen
			s.heard = now
		case now.Sub(s.heard) >= missed*c.opts.Heartbeat-c.opts.Heartbeat/sweeps:
			c.drop(s, errSilent)
			silent++
		case now.Sub(s.busy) > c.opts.Idle:
			for f, at := range s.seats {
				c.free(at, c.tell)
				s.refuse(f, "idle", treepb.Refusal_AGAIN_ACTIVE)
			}
		}
	}
	for at := range c.suspended {
		if at.session.heard.After(at.suspended) && !now.Before(at.until) {
			c.resume(at)
		}
	}
	c.settle(now)
	c.mu.Unlock()
	c.metrics.silent.Add(float64(silent))
	if slept {
		log.G(ctx).WithField("pause", pause).Warn("the coordinator was stopped or starved, VMs get more time")
	}
	if silent > 0 {
		log.G(ctx).WithField("vms", silent).Warn("VMs are silent and out of their trees")
	}
}
