package fetch

import (
	"sync"
	"time"
)

// Bounds of the delay after which the next source is asked as well. Below the
// first a hedge costs more than it saves; the second leaves time for the origin
// within any deadline. Before the first answer the second counts half.
const (
	minHedge = 50 * time.Millisecond
	maxHedge = 2 * time.Second
)

// latency is a smoothed mean and deviation of answers, as TCP keeps them
// (RFC 6298).
type latency struct {
	mu        sync.Mutex
	mean, dev time.Duration
}

func (l *latency) observe(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mean == 0 {
		l.mean, l.dev = d, d/2
		return
	}
	l.dev += ((d - l.mean).Abs() - l.dev) / 4
	l.mean += (d - l.mean) / 8
}

// hedge returns after what time without an answer another source is asked.
func (l *latency) hedge() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mean == 0 {
		return maxHedge / 2
	}
	return min(max(l.mean+4*l.dev, minHedge), maxHedge)
}
