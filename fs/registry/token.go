package registry

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
)

// A token is asked for anew somewhere between soonest and latest of its
// lifetime, while the old one still serves: a fleet's refreshes are spread, and
// a token server that is down for a moment is not noticed.
const (
	soonest, latest = 0.83, 0.93
	// margin of the lifetime at its end in which a token is not sent any more:
	// it might end on its way. At most maxMargin.
	margin    = 0.05
	maxMargin = 5 * time.Second
	// defaultLifetime is what the distribution specification says for a token
	// without expires_in.
	defaultLifetime = 60 * time.Second
	// tokenTimeout bounds one request for a token, all told.
	tokenTimeout = 30 * time.Second
	// After a failure the server is left alone: 1 s, doubling to 10 s.
	tokenBackoff, maxTokenBackoff = time.Second, 10 * time.Second
)

// token is what one host is told for one set of scopes.
type token struct {
	mu     sync.Mutex // guards all below
	scopes []string   // that challenges asked for, beyond the caller's
	value  string     // "" when there is none
	soft   time.Time  // from then on it is to be replaced
	hard   time.Time  // from then on it is not sent
	flight *flight    // the request under way; nil for none
	fails  int        // in a row
	retry  time.Time  // no request before
	err    error      // of the last failure
	basic  string     // the header of a host that wants a password instead
}

func (k *token) password() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.basic
}

func (k *token) tell(basic string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.basic = basic
}

// flight is one request for a token. What it gave may be read after done.
type flight struct {
	done  chan struct{}
	value string
	err   error
}

// get returns a token, and sees to it that there is one later. It waits for one
// request for a token at most, and for the end of one pause after failures.
func (k *token) get(ctx context.Context, a *authorizer, host string, r realm, scopes []string) (string, error) {
	for paused := false; ; {
		v, f, pause, err := k.look(ctx, a, host, r, scopes)
		switch {
		case v != "":
			return v, nil
		case f != nil:
			select {
			case <-f.done:
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
			return f.value, f.err
		case paused || errdefs.IsUnauthorized(err) || tooLate(ctx, pause):
			return "", err
		case !sleep(ctx, pause):
			return "", context.Cause(ctx)
		}
		paused = true
	}
}

func tooLate(ctx context.Context, wait time.Duration) bool {
	t, ok := deadline(ctx)
	return ok && time.Until(t) < wait
}

// look returns a token that may be sent; or the flight to wait for; or how long
// to wait for the next, and why.
func (k *token) look(ctx context.Context, a *authorizer, host string, r realm, scopes []string) (string, *flight, time.Duration, error) { //nolint:contextcheck // a flight outlives who started it
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	good := k.value != "" && now.Before(k.hard)
	if good && now.Before(k.soft) {
		return k.value, nil, 0, nil
	}
	if wait := k.retry.Sub(now); k.flight == nil && wait > 0 {
		if good {
			return k.value, nil, 0, nil
		}
		return "", nil, wait, k.err
	}
	if k.flight == nil {
		f := &flight{done: make(chan struct{})}
		scopes := slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(scopes), k.scopes...))))
		ctx := log.WithLogger(a.tokens.c.ctx, log.G(ctx))
		if !a.tokens.c.start(func() { k.refresh(ctx, a, host, r, scopes, f) }) {
			return "", nil, 0, errClosed
		}
		k.flight = f
	}
	if good {
		return k.value, nil, 0, nil
	}
	return "", k.flight, 0, nil
}

// refresh is one flight.
func (k *token) refresh(ctx context.Context, a *authorizer, host string, r realm, scopes []string, f *flight) {
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	begin := time.Now()
	value, life, err := a.fetch(ctx, host, r, scopes)
	a.tokens.c.metrics.tokens.WithLabelValues(result(err)).Inc()
	k.mu.Lock()
	defer k.mu.Unlock()
	defer close(f.done)
	k.flight = nil
	if err != nil {
		k.err = fmt.Errorf("token for %s: %w", host, err)
		f.err = k.err
		k.retry = time.Now().Add(backoff(tokenBackoff, maxTokenBackoff, k.fails))
		k.fails++
		return
	}
	f.value = value
	k.value, k.err, k.fails, k.retry = value, nil, 0, time.Time{}
	part := soonest + rand.Float64()*(latest-soonest)
	k.soft = begin.Add(time.Duration(float64(life) * part))
	k.hard = begin.Add(life - min(time.Duration(float64(life)*margin), maxMargin))
}

// drop forgets the token if it is value; false when it is not.
func (k *token) drop(value string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.value != value {
		return false
	}
	k.value = ""
	return true
}

// widen adds scopes that a challenge asked for; true when that is news. The
// token that is there does not have them.
func (k *token) widen(scopes []string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	news := false
	for _, s := range scopes {
		if !slices.Contains(k.scopes, s) {
			k.scopes = append(k.scopes, s)
			news = true
		}
	}
	return news
}
