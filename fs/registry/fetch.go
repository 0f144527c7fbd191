package registry

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/containerd/errdefs"
)

// follow asks for the block at u, through redirects, and returns the first
// answer that is none, and where it came from.
func (a *attempt) follow(q *request, u *url.URL) (*http.Response, *url.URL, error) {
	for hops := 0; ; hops++ {
		resp, err := a.request(q, u)
		if err != nil {
			return nil, nil, err
		}
		if !redirects(resp.StatusCode) {
			if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusPartialContent {
				drain(resp.Body)
				return nil, nil, statusError(resp, redacted(u))
			}
			return resp, u, nil
		}
		drain(resp.Body)
		if hops == maxHops {
			return nil, nil, errHops
		}
		if u, err = location(resp, u); err != nil {
			return nil, nil, err
		}
	}
}

// request asks for the block at u, with the authentication that u's host asks
// for.
func (a *attempt) request(q *request, u *url.URL) (*http.Response, error) {
	ctx := q.ctx
	var seen []*http.Response
	for {
		req := (&http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: http.Header{}}).WithContext(ctx)
		if a.e.trusts(u) {
			maps.Copy(req.Header, a.e.Header)
		}
		if err := a.e.authorize(ctx, req); err != nil {
			return nil, fmt.Errorf("%s: %w", redacted(u), err)
		}
		req.Header.Set("User-Agent", a.r.c.opts.UserAgent)
		req.Header.Set("Accept-Encoding", "identity")
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", a.ref.Offset, a.ref.Offset+int64(a.ref.Size)-1))
		resp, err := a.send(q, req)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", redacted(u), transportError(ctx, err))
		}
		if resp.StatusCode != http.StatusUnauthorized {
			return resp, nil
		}
		drain(resp.Body)
		seen = append(seen, resp)
		if err := a.e.Authorizer.AddResponses(ctx, seen); err != nil {
			if errdefs.IsUnauthorized(err) {
				err = final{err}
			}
			return nil, fmt.Errorf("%s: 401: %w", redacted(u), err)
		}
	}
}

// send makes one request. Its connection, handshake and headers together may
// take as long as the body may be silent.
func (a *attempt) send(q *request, req *http.Request) (*http.Response, error) {
	via := a.e.via(req.URL)
	if err := via.wait(req); err != nil {
		return nil, err
	}
	defer time.AfterFunc(a.r.c.opts.Idle, func() { q.cancel(errIdle) }).Stop()
	return via.send(req)
}

// authorize sets what the host of the request asked for before; where it never
// did, and may see what the endpoint sees, that.
func (e *endpoint) authorize(ctx context.Context, req *http.Request) error {
	had := req.Header.Get("Authorization")
	if err := e.Authorizer.Authorize(ctx, req); err != nil {
		return err
	}
	if req.URL.Host == e.Host || !e.trusts(req.URL) || req.Header.Get("Authorization") != had {
		return nil
	}
	home := &http.Request{URL: &url.URL{Host: e.Host}, Header: http.Header{}}
	if err := e.Authorizer.Authorize(ctx, home); err != nil {
		return err
	}
	if v := home.Header.Get("Authorization"); v != "" {
		req.Header.Set("Authorization", v)
	}
	return nil
}
