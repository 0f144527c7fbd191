package registrytest

import (
	"strconv"
	"sync"
	"time"
)

// Limit is a rate limit over all requests: at most PerSecond are answered in
// any one second, what is over it is answered 429.
type Limit struct {
	PerSecond  int
	RetryAfter time.Duration // whole seconds; 0: no such header
}

type limiter struct {
	Limit

	mu   sync.Mutex  // guards past
	past []time.Time // of the requests answered within the last second
}

// take counts one request. Over: it is one too many for the last second; wait
// is the value of Retry-After. A nil limiter has no limit.
func (l *limiter) take() (wait string, over bool) {
	if l == nil {
		return "", false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for len(l.past) > 0 && now.Sub(l.past[0]) >= time.Second {
		l.past = l.past[1:]
	}
	if len(l.past) < l.PerSecond {
		l.past = append(l.past, now)
		return "", false
	}
	if l.RetryAfter > 0 {
		wait = strconv.Itoa(int(l.RetryAfter / time.Second))
	}
	return wait, true
}
