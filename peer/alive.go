package peer

import (
	"fmt"
	"time"

	"github.com/containerd/errdefs"
)

// errSilent ends a connection on which we waited in vain for a sign of life.
var errSilent = fmt.Errorf("no sign of life: %w", errdefs.ErrUnavailable)

// expect begins to watch for signs of life, since we wait for something. The
// caller holds mu. While nothing is awaited nobody watches: an idle connection
// costs no wake-ups.
func (c *conn) expect() {
	if c.watching {
		return
	}
	c.watching, c.since = true, time.Now()
	every := c.r.opts.Silence / 4
	if c.watch == nil {
		c.watch = time.AfterFunc(every, c.check)
	} else {
		c.watch.Reset(every)
	}
}

// check ends the connection if it is silent. A VM that works for us says so
// every Options.KeepAlive; one that need not say anything is asked.
func (c *conn) check() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.calls)+len(c.pushed) == 0 || c.ctx.Err() != nil {
		c.watching = false
		return
	}
	silence, last := c.r.opts.Silence, time.Unix(0, c.heard.Load())
	if c.since.After(last) {
		last = c.since
	}
	switch quiet := time.Since(last); {
	case quiet >= silence:
		c.watching = false
		c.close(fmt.Errorf("%s: %w for %v", c.vm, errSilent, quiet))
		return
	case quiet >= silence/2 && time.Since(c.pinged) >= silence/2:
		c.pinged = time.Now()
		c.out.say(framePing, 0, 0, nil)
	}
	c.watch.Reset(silence / 4)
}
