package registry

import (
	"context"
	"net/url"
	"sync"
	"time"
)

// blob is what is remembered of one blob at one endpoint.
type blob struct {
	mu      sync.Mutex    // guards all below
	bad     time.Time     // asked last until then
	at      *url.URL      // where redirects led; nil: the endpoint itself
	until   time.Time     // when at ends; zero: not known
	finding chan struct{} // closed when the first answer of the endpoint is there; nil: nobody asks
	known   bool          // the endpoint has answered once
	stream  *stream       // of an endpoint that ignores Range
}

func (b *blob) avoid() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bad = time.Now().Add(forgive)
}

func (b *blob) avoided() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Before(b.bad)
}

// patience is how long readers wait for the first to find where a blob is.
const patience = time.Second

// locate returns where the blob is, and the stream that carries it, if any.
// Where that is not known, one caller is the first: it asks the endpoint and
// calls settle, or found in any case. The others wait for it, so that an
// endpoint that redirects is asked once, not once a reader; where it finds
// nothing, or not soon, they ask for themselves.
func (b *blob) locate(ctx context.Context) (at *url.URL, s *stream, first bool, err error) {
	b.mu.Lock()
	if b.at != nil && !b.until.IsZero() && !time.Now().Before(b.until) {
		b.at, b.known = nil, false
	}
	if b.known || b.finding == nil {
		defer b.mu.Unlock()
		if first = !b.known; first {
			b.finding = make(chan struct{})
			return nil, nil, true, nil
		}
		return b.at, b.stream, false, nil
	}
	wait := b.finding
	b.mu.Unlock()
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-wait:
	case <-t.C:
	case <-ctx.Done():
		return nil, nil, false, context.Cause(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.at, b.stream, false, nil
}

// settle remembers where the blob is.
func (b *blob) settle(at *url.URL, s *stream) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.place(at, s)
}

// place is settle. b.mu is held.
func (b *blob) place(at *url.URL, s *stream) {
	b.at, b.stream, b.known = at, s, true
	b.until = time.Time{}
	if at != nil {
		b.until = expiry(at)
	}
	b.wake()
}

// found ends the wait of the others, whether the first found anything or not.
func (b *blob) found() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wake()
}

func (b *blob) wake() {
	if b.finding != nil {
		close(b.finding)
		b.finding = nil
	}
}

// adopt returns the stream of the blob, made by f when it has none yet; nil
// when f makes none.
func (b *blob) adopt(at *url.URL, f func() *stream) *stream {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stream == nil {
		if s := f(); s != nil {
			b.place(at, s)
		} else {
			b.wake()
		}
	}
	return b.stream
}

// forget drops a location that does not serve any more; another that was found
// meanwhile stays.
func (b *blob) forget(at *url.URL) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at == at {
		b.at, b.known = nil, false
	}
}

// lost drops a stream that has failed.
func (b *blob) lost(s *stream) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stream == s {
		b.stream, b.known = nil, false
	}
}
