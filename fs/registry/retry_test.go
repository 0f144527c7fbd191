package registry

import (
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/quick"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"

	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

func TestRA12_Backoff(t *testing.T) {
	for _, base := range []time.Duration{0, 1, time.Millisecond, time.Hour, math.MaxInt64, -1} {
		for _, limit := range []time.Duration{0, 1, time.Second, 5 * time.Second, math.MaxInt64, -1} {
			for n := range 101 {
				d := backoff(base, limit, n)
				if d < 0 || d > max(0, limit) {
					t.Fatalf("backoff(%d, %d, %d) = %d", base, limit, n, d)
				}
				if n >= 70 && d != max(0, limit) {
					t.Fatalf("backoff(%d, %d, %d) = %d, want the limit", base, limit, n, d)
				}
				if limit >= time.Second && d < min(minBackoff, limit)/2 {
					t.Fatalf("backoff(%d, %d, %d) = %d: a busy loop", base, limit, n, d)
				}
			}
		}
	}
	bounded := func(base, limit int64, n int) bool {
		d := backoff(time.Duration(base), time.Duration(limit), n)
		return d >= 0 && d <= max(0, time.Duration(limit))
	}
	if err := quick.Check(bounded, &quick.Config{MaxCount: 20_000}); err != nil {
		t.Error(err)
	}
	spread := map[time.Duration]bool{}
	for range 100 {
		spread[backoff(time.Second, time.Minute, 3)] = true
	}
	if len(spread) < 90 {
		t.Errorf("100 delays have %d values: no jitter", len(spread))
	}
}

func TestRA12_Retries(t *testing.T) {
	ofBlobs := registrytest.Of(registrytest.Blobs)
	t.Run("502, 503, reset, 200", func(t *testing.T) {
		reg := registrytest.New(t, registrytest.Options{})
		l := addLayer(t, reg, "a/b", 1<<16)
		reg.Next(ofBlobs, registrytest.Fault{Status: 502}, registrytest.Fault{Status: 503}, registrytest.Fault{Reset: true})
		l.read(t.Context(), t, blobs(t, newClient(t, fast), reg.Host()+"/a/b"), 0, 100)
		if n := reg.Count(registrytest.Blobs); n != 4 {
			t.Errorf("%d requests, want 4", n)
		}
	})
	for status, want := range map[int]func(error) bool{
		404: errdefs.IsNotFound, 410: errdefs.IsNotFound, 403: errdefs.IsPermissionDenied, 400: errdefs.IsUnavailable,
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			reg := registrytest.New(t, registrytest.Options{})
			l := addLayer(t, reg, "a/b", 1<<16)
			reg.Every(ofBlobs, registrytest.Fault{Status: status})
			_, err := blobs(t, newClient(t, fast), reg.Host()+"/a/b").ReadBlock(t.Context(), l.ref(0, 100), nil)
			if !want(err) {
				t.Errorf("got %v", err)
			}
			if n := reg.Count(registrytest.Blobs); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
	for _, status := range []int{408, 500, 504} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			reg := registrytest.New(t, registrytest.Options{})
			l := addLayer(t, reg, "a/b", 1<<16)
			reg.Every(ofBlobs, registrytest.Fault{Status: status})
			o := fast
			o.Attempts = 4
			_, err := blobs(t, newClient(t, o), reg.Host()+"/a/b").ReadBlock(t.Context(), l.ref(0, 100), nil)
			if !errdefs.IsUnavailable(err) {
				t.Errorf("got %v", err)
			}
			if n := reg.Count(registrytest.Blobs); n != 4 {
				t.Errorf("%d requests, want 4", n)
			}
		})
	}
}

// The reader of a block sees its deadline pass; why, stands in the log, once.
func TestFailingRegistryIsNamedOnce(t *testing.T) {
	reg := registrytest.New(t, registrytest.Options{})
	l := addLayer(t, reg, "a/b", 1<<16)
	reg.Every(registrytest.Of(registrytest.Blobs), registrytest.Fault{Status: 503})
	j := &journal{}
	logger := like(log.L.Logger)
	logger.Out, logger.Formatter, logger.Hooks, logger.Level = j, log.L.Logger.Formatter, nil, log.WarnLevel
	s := blobs(t, newClient(t, fast), reg.Host()+"/a/b")
	for range 2 {
		if _, err := s.ReadBlock(log.WithLogger(t.Context(), logger.WithFields(nil)), l.ref(0, 100), nil); !errdefs.IsUnavailable(err) {
			t.Errorf("got %v", err)
		}
	}
	if out := j.buf.String(); strings.Count(out, "\n") != 1 || !strings.Contains(out, "503") || !strings.Contains(out, "host=\""+reg.Host()) {
		t.Errorf("the log says %s", out)
	}
}

func TestRA16_RateLimit(t *testing.T) {
	const perSecond, containers, blocks = 5, 3, 12
	after := 2 * time.Second
	inBubble(t, registrytest.Options{Limit: &registrytest.Limit{PerSecond: perSecond, RetryAfter: after}}, Options{}, func(b *bubble) {
		t := b.t
		var wg sync.WaitGroup
		for c := range containers {
			repository := string(rune('a' + c))
			l := addLayer(t, b.reg, repository, 1<<16)
			s := blobs(t, b.c, host+"/"+repository)
			wg.Go(func() {
				var reads sync.WaitGroup
				for i := range blocks {
					reads.Go(func() { l.read(t.Context(), t, s, i*100, 100) })
				}
				reads.Wait()
			})
		}
		wg.Wait()
		var limited time.Time
		var later []time.Time
		for _, q := range b.reg.Requests() {
			switch {
			case limited.IsZero():
				if q.Status == http.StatusTooManyRequests {
					limited = q.Time
				}
			case q.Time.After(limited.Add(time.Millisecond)): // those of the same burst had gone
				later = append(later, q.Time)
			}
		}
		if limited.IsZero() || len(later) == 0 {
			t.Fatal("the limit was not met")
		}
		if d := later[0].Sub(limited); d < after-500*time.Millisecond || d > after+500*time.Millisecond {
			t.Errorf("next request %v after the 429, Retry-After was %v", d, after)
		}
		for i := range later {
			if j := i + perSecond; j < len(later) && later[j].Sub(later[i]) < time.Second {
				t.Errorf("%d requests within %v", perSecond+1, later[j].Sub(later[i]))
			}
		}
	})
}

// TestRA16_Resolver: containerd's resolver, which repeats a 429 at once, is held
// back by the same memory.
func TestRA16_Resolver(t *testing.T) {
	inBubble(t, registrytest.Options{}, Options{}, func(b *bubble) {
		t := b.t
		want := pushImage(t.Context(), t, b.c.Resolver(), host+"/a/b:1", []byte("layer"))
		b.reg.Next(registrytest.Of(registrytest.Manifests), registrytest.Fault{Status: 429, Header: http.Header{"Retry-After": {"2"}}})
		begin := time.Now()
		_, got, err := b.c.Resolver().Resolve(t.Context(), host+"/a/b:1")
		if err != nil || got.Digest != want.Digest {
			t.Errorf("resolve: %v, %v", got.Digest, err)
		}
		if d := time.Since(begin); d < 2*time.Second || d > 2500*time.Millisecond {
			t.Errorf("resolved after %v, Retry-After was 2 s", d)
		}
	})
}

func TestPaceHealsAndAdapts(t *testing.T) {
	inBubble(t, registrytest.Options{}, Options{}, func(b *bubble) {
		t := b.t
		p := &pace{}
		now := func(status int, header string) {
			p.saw(&http.Response{StatusCode: status, Header: http.Header{"Retry-After": {header}}})
		}
		for range 10 {
			now(200, "")
		}
		now(429, "1")
		if d := p.turn(); d != time.Second {
			t.Errorf("first wait is %v", d)
		}
		time.Sleep(time.Second)
		if p.turn() != 0 || p.gap != 125*time.Millisecond {
			t.Errorf("gap is %v after 10 requests a second were taken", p.gap)
		}
		now(429, time.Now().Add(3*time.Second).UTC().Format(http.TimeFormat))
		if d := p.turn(); d != 3*time.Second {
			t.Errorf("wait for a date is %v", d)
		}
		time.Sleep(3 * time.Second)
		p.turn()
		if p.gap <= 125*time.Millisecond {
			t.Errorf("gap is still %v after another 429", p.gap)
		}
		time.Sleep(20 * healing)
		if p.turn() != 0 || p.gap != 0 {
			t.Errorf("gap is %v long after the last 429", p.gap)
		}
		for n := range 10 {
			now(429, "soon")
			if d := p.turn(); d <= 0 || d > maxRetryAfter {
				t.Errorf("wait %d without Retry-After is %v", n, d)
			}
		}
		now(429, "86400")
		if d := p.turn(); d > maxRetryAfter {
			t.Errorf("a day's Retry-After holds for %v", d)
		}
	})
}

// TestRetryAfterBeyondTheDeadline: who cannot wait that long is told at once.
func TestRetryAfterBeyondTheDeadline(t *testing.T) {
	inBubble(t, registrytest.Options{}, Options{Budget: 10 * time.Second}, func(b *bubble) {
		t := b.t
		l := addLayer(t, b.reg, "a/b", 1<<16)
		b.reg.Every(registrytest.Of(registrytest.Blobs), registrytest.Fault{Status: 429, Header: http.Header{"Retry-After": {"30"}}})
		begin := time.Now()
		fails(t, blobs(t, b.c, host+"/a/b"), l, 100)
		if d := time.Since(begin); d > 10*time.Second {
			t.Errorf("took %v", d)
		}
		if n := b.reg.Count(registrytest.Blobs); n != 1 {
			t.Errorf("%d requests in the time of Retry-After", n)
		}
	})
}
