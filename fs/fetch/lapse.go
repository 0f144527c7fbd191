package fetch

import (
	"sync"
	"time"
)

// lapse is how long a block that a reader waited for in vain fails at once. For
// one read(2) the kernel asks up to six times, in shrinking pieces and without a
// pause; only the first of these waits, else the deadlines add up.
const lapse = 250 * time.Millisecond

// lapses are the blocks of a layer for which that holds now. The zero value is
// ready.
type lapses struct {
	mu sync.Mutex // no other lock is taken under it
	m  map[int]time.Time
}

// add says that somebody has just waited for block i in vain.
func (l *lapses) add(i int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for j, t := range l.m {
		if now.Sub(t) >= lapse {
			delete(l.m, j)
		}
	}
	if l.m == nil {
		l.m = map[int]time.Time{}
	}
	l.m[i] = now
}

// has reports whether block i is one of them.
func (l *lapses) has(i int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t, ok := l.m[i]
	return ok && time.Since(t) < lapse
}
