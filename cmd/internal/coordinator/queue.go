package coordinator

import "time"

const (
	// burstJoins are more joins than make a burst, if none of them comes burstPause
	// after the one before.
	burstJoins = 16
	burstPause = 5 * time.Millisecond
	// holdTime is what a VM that has a place waits at most to hear of another one:
	// less than the first time after which one that its upstream does not know yet
	// tries again.
	holdTime = 25 * time.Millisecond
)

// queue sees to it that in a burst of joins those who wait for a place hear of it
// first. Each join moves the places of a few who have one: they hear of several
// changes at once, a little later. All of it is guarded by Coordinator.mu.
type queue struct {
	joins int       // of the burst
	last  time.Time // of these
	held  []held    // the first first
	timer *time.Timer
}

// held is a session that has news and does not know it.
type held struct {
	session *session
	since   time.Time
}

// joined notes a join.
func (q *queue) joined(now time.Time) {
	if now.Sub(q.last) > burstPause {
		q.joins = 0
	}
	q.joins++
	q.last = now
}

func (q *queue) burst(now time.Time) bool {
	return q.joins > burstJoins && now.Sub(q.last) <= burstPause
}

// tellLater is tell for what can wait: a join, or that a VM leaves which goes on to
// answer. A VM that vanishes is another matter.
func (c *Coordinator) tellLater(s *seat) {
	q, now := &c.queue, time.Now()
	switch {
	case s == nil || !s.placed():
	case !q.burst(now):
		c.tell(s)
	case s.session.later(s.grove.key.Function):
		q.held = append(q.held, held{s.session, now})
		if q.timer == nil {
			q.timer = time.AfterFunc(burstPause, c.release)
		}
	}
}

func (c *Coordinator) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue.release(time.Now())
}

// release wakes those who were held for long enough, and all when the burst is
// over.
func (q *queue) release(now time.Time) {
	over, n := !q.burst(now), 0
	for n < len(q.held) && (over || now.Sub(q.held[n].since) >= holdTime-burstPause) {
		q.held[n].session.stir()
		n++
	}
	q.held = q.held[n:]
	if len(q.held) > 0 {
		q.timer.Reset(burstPause)
	} else {
		q.held, q.timer = nil, nil
	}
}
