package registry

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/errdefs"
)

// maxHops bounds the redirects of one request, as in containerd.
const maxHops = 10

var errHops = final{fmt.Errorf("more than %d redirects: %w", maxHops, errdefs.ErrUnavailable)}

func redirects(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// location returns where an answer to a request for u redirects to. Its errors
// do not quote the header: it may be a signature.
func location(resp *http.Response, u *url.URL) (*url.URL, error) {
	next, err := u.Parse(resp.Header.Get("Location"))
	if err != nil || next.Host == "" || next.Scheme != "http" && next.Scheme != "https" {
		return nil, final{fmt.Errorf("%s: %d with an unusable Location: %w", u.Host, resp.StatusCode, errdefs.ErrUnavailable)}
	}
	next.Fragment = ""
	return next, nil
}

// plain reports whether the endpoint is spoken to over http, or may be by
// containerd's rule for loopback and for hosts that are configured as http.
func (e *endpoint) plain() bool { return e.Scheme == "http" || e.fallback }

// own reports whether u is at the endpoint itself.
func (e *endpoint) own(u *url.URL) bool { return u.Host == e.Host && u.Scheme == e.Scheme }

// trusts reports whether a request to u may carry what is meant for the
// endpoint: credentials and headers of hosts.toml.
func (e *endpoint) trusts(u *url.URL) bool {
	return e.carries(&url.URL{Scheme: e.Scheme, Host: e.Host}, u)
}

// carries reports whether what is meant for one URL may go to another. As with
// containerd, whose client is Go's, the port does not matter, but the name has
// to be the same, not a name below it, and nothing leaves TLS.
func (e *endpoint) carries(from, to *url.URL) bool {
	return from.Hostname() == to.Hostname() && (to.Scheme == "https" || from.Scheme == "http" || e.fallback && from.Host == e.Host)
}

// via returns the transport for a request to u. Another host than the endpoint
// is never spoken to over http because TLS failed. No http.Client stands before
// it: that follows redirects, and quotes them in errors.
func (e *endpoint) via(u *url.URL) *paced {
	if e.own(u) {
		return e.home
	}
	return e.others
}

// drain reads the rest of a short body so that its connection can be used
// again, and closes it.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 4<<10)
	_ = body.Close()
}

// expiry returns when a signed URL ends, as far as its query says so in one of
// the usual ways; the zero time when it does not.
func expiry(u *url.URL) time.Time {
	q := u.Query()
	for _, p := range []string{"X-Amz-", "X-Goog-"} {
		from, err := time.Parse("20060102T150405Z", q.Get(p+"Date"))
		life, err2 := strconv.Atoi(q.Get(p + "Expires"))
		if errors.Join(err, err2) == nil {
			return from.Add(time.Duration(life) * time.Second)
		}
	}
	if s, err := strconv.ParseInt(q.Get("Expires"), 10, 64); err == nil { // CloudFront, OSS, old S3
		return time.Unix(s, 0)
	}
	if t, err := time.Parse(time.RFC3339, q.Get("se")); err == nil { // Azure
		return t
	}
	return time.Time{}
}

// redirecting follows redirects of GET and HEAD below an http.Client, for token
// requests and for containerd's fetcher: with our rules of what goes where, and
// without a signed URL in errors and logs.
type redirecting struct{ e *endpoint }

// RoundTrip implements http.RoundTripper.
func (t redirecting) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.e.via(req.URL).RoundTrip(req)
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		if err == nil && redirects(resp.StatusCode) {
			if _, err = location(resp, req.URL); err != nil {
				drain(resp.Body)
				return nil, err // http.Client would quote it
			}
		}
		return resp, err
	}
	at := req.URL
	for hops := 0; err == nil && redirects(resp.StatusCode); hops++ {
		drain(resp.Body)
		if hops == maxHops {
			return nil, errHops
		}
		if at, err = location(resp, at); err != nil {
			return nil, err
		}
		next := req.Clone(req.Context())
		next.URL, next.Host = at, ""
		if !t.e.carries(req.URL, at) {
			next.Header.Del("Authorization")
			for k := range t.e.Header {
				next.Header.Del(k)
			}
		}
		if resp, err = t.e.via(at).RoundTrip(next); err != nil {
			return nil, fmt.Errorf("%s: %w", at.Host, err)
		}
		shown := *at
		shown.RawQuery = ""
		resp.Request = next.Clone(req.Context())
		resp.Request.URL = &shown
	}
	return resp, err
}

var _ docker.Authorizer = (*authorizer)(nil)
