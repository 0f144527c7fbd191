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
	t.TLSHandshakeTimeout = c.opts.Idle / 2 // containerd's fallback to http, where there is one, needs the rest
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

// RoundTrip waits for the host's turn, and asks.
func (p *paced) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := p.wait(req); err != nil {
		return nil, err
	}
	return p.send(req)
}

func (p *paced) wait(req *http.Request) error {
	return p.c.lane(req.URL.Host).pace.wait(req.Context())
}

// send asks, and learns from a 429. Wait comes before.
func (p *paced) send(req *http.Request) (*http.Response, error) {
	resp, err := p.next.RoundTrip(req)
	if err != nil {
		p.c.metrics.requests.WithLabelValues("error").Inc()
		return nil, err
	}
	p.c.lane(req.URL.Host).pace.saw(resp)
	p.c.metrics.requests.WithLabelValues(class(resp.StatusCode)).Inc()
	return resp, nil
}
