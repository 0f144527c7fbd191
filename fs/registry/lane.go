package registry

import (
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// forgive is how long a host that failed is asked after all others; up to a
// tenth is added so that a fleet does not come back in step.
const forgive = 30 * time.Second

// maxLanes bounds the hosts that are remembered. Signed URLs lead to a handful
// of names; a registry that makes one up for each blob loses its lanes' memory.
const maxLanes = 1024

// lane is what is known of one host:port, shared by everything that asks it.
type lane struct {
	slots *semaphore.Weighted // blocks read at a time
	pace  pace

	mu   sync.Mutex // guards down
	down time.Time  // asked last until then
}

// lane returns the lane of a host:port.
func (c *Client) lane(host string) *lane {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lanes[host]
	if l == nil {
		if len(c.lanes) >= maxLanes {
			clear(c.lanes)
		}
		l = &lane{slots: semaphore.NewWeighted(int64(c.opts.PerHost))}
		c.lanes[host] = l
	}
	return l
}

func (l *lane) healthy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !time.Now().Before(l.down)
}

// mark remembers whether the host worked, and reports whether that is the end
// of a time in which it did.
func (l *lane) mark(ok bool) (fell bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fell = !ok && time.Now().After(l.down)
	l.down = time.Time{}
	if !ok {
		l.down = time.Now().Add(forgive + rand.N(forgive/10))
	}
	return fell
}
