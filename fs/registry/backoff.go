package registry

import (
	"context"
	"math/rand/v2"
	"time"
)

// minBackoff is the least base of a backoff: a base of 0 or 1 ns would retry
// in a busy loop.
const minBackoff = time.Millisecond

// backoff returns the delay after failure n, counted from 0: base doubled n
// times, at most limit, less a random part of up to a half, so that many
// clients do not come back in step. From failure 63 on it is limit exactly.
func backoff(base, limit time.Duration, n int) time.Duration {
	if limit <= 0 || n < 0 {
		return 0
	}
	if n >= 63 {
		return limit
	}
	d := limit
	if base = max(base, minBackoff); base <= limit>>n {
		d = base << n
	}
	return d - time.Duration(rand.Int64N(int64(d)/2+1))
}

// sleep waits for d; false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
