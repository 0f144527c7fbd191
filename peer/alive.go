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
	silence := c.r.opts.Silence
	if c.quietFor() >= silence/4 {
		c.listen()
	}
	quiet := c.quietFor()
	if quiet >= silence {
		c.watching = false
		c.close(fmt.Errorf("%s: %w for %v", c.vm, errSilent, quiet))
		return
	}
	next := min(silence/4, silence-quiet)
	doubt := silence * doubtShare / 5
	switch owed := c.owed(); {
	case owed >= doubt:
		c.doubt()
	case quiet < doubt:
		c.doubted = false
		next = min(next, doubt-quiet)
	case owed > 0:
		next = min(next, doubt-owed)
	}
	if quiet >= silence/2 && time.Since(c.pinged) >= silence/2 {
		c.pinged = time.Now()
		c.out.say(framePing, 0, 0, nil)
	}
	c.watch.Reset(next)
}

// doubtShare is after how many fifths of Options.Silence a VM that owes us something
// is reported to be quiet: by then the coordinator has missed a heartbeat of one that
// is gone.
const doubtShare = 2

// doubt reports a VM that is quiet and owes us blocks, once until it is heard. The
// caller holds mu, and the connection has not ended.
func (c *conn) doubt() {
	if c.doubted {
		return
	}
	c.doubted = true
	c.r.metrics.quiet.Add(1)
	since := c.quietSince()
	c.work.Go(func() { c.r.report(c.vm, Quiet, since) })
}

// listen looks for bytes that have come and are too few to wake the reader. The
// caller holds mu.
func (c *conn) listen() {
	n := queued(c.low.raw)
	if n > 0 && n != c.queued {
		c.hear(time.Now())
	}
	c.queued = n
}

// quietFor returns for how long we have waited for a sign of life. The caller
// holds mu.
func (c *conn) quietFor() time.Duration { return time.Since(c.quietSince()) }

// quietSince returns since when we wait, or waited last, for a sign of life. While
// nothing is awaited silence says nothing. The caller holds mu.
func (c *conn) quietSince() time.Time {
	if last := c.lastHeard(); last.After(c.since) {
		return last
	}
	return c.since
}

// quiet reports whether the other side seems to have stopped: it has said nothing
// for half of the time after which it is given up although it owes us a block, or
// nothing for a quarter when it was asked whether it lives. One that is followed
// and has nothing to send is not quiet.
func (c *conn) quiet() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	silence := c.r.opts.Silence
	switch {
	case !c.watching:
		return false
	case c.pinged.After(c.lastHeard()) && time.Since(c.pinged) >= silence/4:
		return true
	case c.quietFor() < silence/2:
		return false
	}
	for _, k := range c.calls {
		if k.dst != nil && time.Since(k.began) >= silence/2 {
			return true
		}
	}
	return false
}

// owes returns for how long the other side has been silent although it owes us
// blocks, 0 if it does not.
func (c *conn) owes() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owed()
}

// owed is owes for a caller that holds mu. What is pushed was announced by a sign
// of life.
func (c *conn) owed() (d time.Duration) {
	switch {
	case !c.watching:
		return 0
	case len(c.pushed) > 0:
		return c.quietFor()
	}
	for _, k := range c.calls {
		if k.dst != nil {
			d = max(d, time.Since(k.began))
		}
	}
	return min(d, c.quietFor())
}

// idleFor is after what time without a request in either direction whoever made
// a connection ends it. The next request makes another one.
const idleFor = 2 * time.Minute

// retire ends the connection if it is idle, and else comes back later.
func (c *conn) retire() {
	followed := c.r.follows(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	busy := len(c.calls)+len(c.pushed)+len(c.serves)+len(c.sends) > 0 || followed
	if busy {
		c.used = time.Now()
	}
	left := idleFor - time.Since(c.used)
	switch {
	case c.ctx.Err() != nil:
	case c.spare && busy:
		c.idle.Reset(c.r.opts.KeepAlive)
	case c.spare:
		c.close(errSpare)
	case left <= 0:
		c.close(errIdle)
	default:
		c.idle.Reset(left)
	}
}

var errIdle = fmt.Errorf("idle: %w", errdefs.ErrUnavailable)

// pace is how fast blocks come in on a connection while we wait for some.
type pace struct {
	since time.Time
	bytes int64   // received until then
	rate  float64 // smoothed, bytes a second
}

// A block is not late that would take no longer than goodPace at the pace of its
// connection, and waits no longer than goodQueue for those that we asked for
// before it: that time is of our own making, and would be no shorter with
// somebody else whose line as many share.
const (
	goodPace  = time.Second
	goodQueue = 4 * time.Second
)

// coming reports whether the block of a call, though nothing or little of it is
// here, can be expected soon: the connection is busy with what we asked for
// before.
func (c *conn) coming(tag uint32) bool {
	now, in := time.Now(), c.bytes.Load()
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := now.Sub(c.pace.since); d >= c.r.opts.KeepAlive {
		if d < time.Second {
			c.pace.rate = (c.pace.rate + float64(in-c.pace.bytes)/d.Seconds()) / 2
		} else {
			c.pace.rate = 0 // begins anew
		}
		c.pace.since, c.pace.bytes = now, in
	}
	if now.Sub(c.lastHeard()) >= c.r.opts.KeepAlive {
		return false // it has stopped, whatever its pace was
	}
	before, own := 0, 0
	for t, k := range c.calls {
		if t < tag {
			before += k.missing()
		} else if t == tag {
			own = k.missing()
		}
	}
	return float64(own) <= c.pace.rate*goodPace.Seconds() && float64(before) <= c.pace.rate*goodQueue.Seconds()
}
