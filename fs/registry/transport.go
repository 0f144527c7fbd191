package registry

import (
	"context"
	"net"
	"net/http"
	"time"
)

// tune gives a transport our limits. It may be called twice on one transport,
// and on a clone of one.
func (c *Client) tune(t *http.Transport) {
	dial := t.DialContext
	if c.opts.Dial != nil {
		dial = c.opts.Dial
	}
	connect := c.opts.Connect
	t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, connect)
		defer cancel()
		return dial(ctx, network, addr)
	}
	t.Proxy = c.opts.Proxy
	t.TLSHandshakeTimeout = c.opts.Idle
	t.ResponseHeaderTimeout = c.opts.Idle
	t.IdleConnTimeout = 90 * time.Second
	t.MaxIdleConns = 0 // bounded per host
	t.MaxIdleConnsPerHost = c.opts.PerHost
	t.DisableCompression = true
	t.ForceAttemptHTTP2 = true
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: c.opts.Idle / 2, PingTimeout: c.opts.Idle / 2}
}

// paced keeps requests within the rate that their host allows.
type paced struct {
	c    *Client
	next http.RoundTripper
}

// RoundTrip waits for the host's turn, asks, and learns from a 429.
func (p *paced) RoundTrip(req *http.Request) (*http.Response, error) {
	l := p.c.lane(req.URL.Host)
	if err := l.pace.wait(req.Context()); err != nil {
		return nil, err
	}
	resp, err := p.next.RoundTrip(req)
	if err == nil {
		l.pace.saw(resp)
		p.c.metrics.requests.WithLabelValues(class(resp.StatusCode)).Inc()
	} else {
		p.c.metrics.requests.WithLabelValues("error").Inc()
	}
	return resp, err
}
