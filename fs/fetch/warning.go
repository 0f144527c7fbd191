package fetch

import (
	"sync"
	"time"
)

// warningEvery is how often one condition is logged.
const warningEvery = time.Minute

// warning limits the rate of a log line.
type warning struct {
	mu   sync.Mutex
	last time.Time
}

// due reports whether it is time for the line, and if so counts it as logged.
func (w *warning) due(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.last.IsZero() && now.Sub(w.last) < warningEvery {
		return false
	}
	w.last = now
	return true
}
