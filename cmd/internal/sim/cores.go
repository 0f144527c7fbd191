package sim

import (
	"sync/atomic"
	"time"
)

// turn is how long one who computes keeps a core before others get theirs.
const turn = 2 * time.Millisecond

// cores are processors that take turns between all who compute. nil are
// infinitely fast.
type cores struct {
	free chan struct{} // waiters get theirs in order
	busy atomic.Int64  // nanoseconds in all
}

func newCores(n int) *cores { return &cores{free: make(chan struct{}, n)} }

// use computes for so long, on one core at a time.
func (c *cores) use(d time.Duration) {
	if c == nil || d <= 0 {
		return
	}
	c.busy.Add(int64(d))
	for d > 0 {
		step := min(d, turn)
		c.free <- struct{}{}
		time.Sleep(step)
		<-c.free
		d -= step
	}
}
