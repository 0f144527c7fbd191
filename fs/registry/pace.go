package registry

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/containerd/errdefs"
)

const (
	// defaultRetryAfter is the first wait where a 429 has no Retry-After.
	defaultRetryAfter = time.Second
	maxRetryAfter     = time.Minute
	// healing is the time without a 429 after which the gap is halved.
	healing = time.Minute
	// maxTaken bounds how many answers of the last second are counted.
	maxTaken = 1000
)

// pace holds requests to one host back once it has said 429: all of them until
// Retry-After has passed, then each after a gap that keeps them at four fifths
// of the rate that the host was seen to take. The zero value holds nothing
// back.
type pace struct {
	mu      sync.Mutex    // guards all below
	until   time.Time     // nothing is sent before
	gap     time.Duration // between two requests; 0: none
	next    time.Time     // when the next request may go
	scarred time.Time     // when the last 429 came
	learn   bool          // the gap has yet to be found from taken
	fails   int           // 429 in a row without Retry-After
	taken   []time.Time   // answers other than 429, of the second before scarred or now
}

// wait waits for the turn of a request, or returns at once when that would be
// after ctx's deadline.
func (p *pace) wait(ctx context.Context) error {
	for {
		d := p.turn()
		if d <= 0 {
			return nil
		}
		if t, ok := deadline(ctx); ok && time.Until(t) < d {
			return fmt.Errorf("rate limit of the registry: next request in %v: %w", d.Round(time.Millisecond), errdefs.ErrUnavailable)
		}
		if !sleep(ctx, d) {
			return context.Cause(ctx)
		}
	}
}

// turn returns how long a request has to wait before it asks again; with 0 it
// has its turn.
func (p *pace) turn() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if d := p.until.Sub(now); d > 0 {
		return d
	}
	if p.learn {
		// Nothing was sent since the 429, so whatever was taken was sent before.
		p.learn = false
		p.gap = max(p.gap*3/2, time.Second*5/4/time.Duration(max(1, len(p.taken))))
		p.next = now
	}
	if p.gap == 0 {
		return 0
	}
	if d := p.next.Sub(now); d > 0 {
		return d
	}
	for now.Sub(p.scarred) >= healing && p.gap > 0 {
		p.scarred = p.scarred.Add(healing)
		if p.gap /= 2; p.gap < time.Millisecond {
			p.gap = 0
		}
	}
	p.next = now.Add(p.gap)
	return 0
}

// saw learns from an answer.
func (p *pace) saw(resp *http.Response) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	from := now.Add(-time.Second)
	if p.learn {
		from = p.scarred.Add(-time.Second)
	}
	for len(p.taken) > 0 && (p.taken[0].Before(from) || len(p.taken) >= maxTaken) {
		p.taken = p.taken[1:]
	}
	if resp.StatusCode != http.StatusTooManyRequests {
		p.fails = 0
		p.taken = append(p.taken, now)
		return
	}
	d, ok := retryAfter(resp.Header.Get("Retry-After"), now)
	if !ok {
		d = backoff(defaultRetryAfter, maxRetryAfter, p.fails)
		p.fails++
	}
	if t := now.Add(min(d, maxRetryAfter)); t.After(p.until) {
		p.until = t
	}
	if !p.learn {
		p.learn, p.scarred = true, now
	}
}

// retryAfter reads the header: seconds or a date.
func retryAfter(s string, now time.Time) (time.Duration, bool) {
	if n, err := strconv.Atoi(s); err == nil && n >= 0 {
		return time.Duration(n) * time.Second, true
	}
	if t, err := http.ParseTime(s); err == nil {
		return max(0, t.Sub(now)), true
	}
	return 0, false
}
