package registrytest

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Request is one request as the registry saw it.
type Request struct {
	Time   time.Time
	Method string
	Host   string // the Host header
	Path   string
	Query  string
	Header http.Header
	Status int   // of the answer; 0: none was given
	Sent   int64 // bytes of the body that were written
	Done   bool  // the answer has ended
	TLS    bool
}

// Is reports whether the request is of that kind.
func (q Request) Is(k Kind) bool { return kindOf(q.Path) == k }

// record is the log of requests. Embedded in what serves.
type record struct {
	mu  sync.Mutex // guards log
	log []*Request
}

func (r *record) add(req *http.Request) *Request {
	q := &Request{
		Time: time.Now(), Method: req.Method, Host: req.Host, Path: req.URL.Path, Query: req.URL.RawQuery,
		Header: req.Header.Clone(), TLS: req.TLS != nil,
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, q)
	return q
}

// Requests returns a copy of all requests so far, in order of arrival.
func (r *record) Requests() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Request, len(r.log))
	for i, q := range r.log {
		out[i] = *q
	}
	return out
}

// Count returns how many requests there were of a kind.
func (r *record) Count(k Kind) int {
	return len(slices.DeleteFunc(r.Requests(), func(q Request) bool { return !q.Is(k) }))
}

// TotalBytes returns the bytes of all bodies sent.
func (r *record) TotalBytes() int64 {
	var n int64
	for _, q := range r.Requests() {
		n += q.Sent
	}
	return n
}

// Forget empties the log.
func (r *record) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = nil
}

// Kind is what a request is about.
type Kind int

// Kinds of requests, told by their path.
const (
	Other     Kind = iota
	Ping           // /v2/
	Token          // the token endpoint
	Manifests      // /v2/<name>/manifests/...
	Blobs          // /v2/<name>/blobs/<digest>
	Uploads        // /v2/<name>/blobs/uploads/...
	Tags           // /v2/<name>/tags/list
	Signed         // a blob at the host of a Redirect
)

func kindOf(path string) Kind {
	switch {
	case path == tokenPath:
		return Token
	case strings.HasPrefix(path, dataPath):
		return Signed
	case path == "/v2/" || path == "/v2":
		return Ping
	case strings.Contains(path, "/manifests/"):
		return Manifests
	case strings.Contains(path, "/blobs/uploads/"):
		return Uploads
	case strings.Contains(path, "/blobs/"):
		return Blobs
	case strings.HasSuffix(path, "/tags/list"):
		return Tags
	}
	return Other
}

// Of makes a match for requests of a kind.
func Of(k Kind) func(*http.Request) bool {
	return func(r *http.Request) bool { return kindOf(r.URL.Path) == k }
}
