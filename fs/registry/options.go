package registry

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/containerd/errdefs"
	"github.com/prometheus/client_golang/prometheus"
)

// Options says how registries are reached. The zero value reaches public
// registries without credentials.
type Options struct {
	// HostsDirs are searched for hosts.toml and certificates, laid out as
	// containerd's certs.d; the first that knows a host wins. Files are read
	// again when they change.
	HostsDirs []string
	// PlainHTTP lists the hosts, as image references name them, that are
	// spoken to over http.
	PlainHTTP []string
	// SkipVerify lists the hosts whose certificate is not checked. A host with
	// a directory in HostsDirs says there whether it is.
	SkipVerify []string

	// Credentials is asked first, with the host:port of requests and the path of
	// the repository; nil, or an answer without credentials, asks DockerConfig.
	Credentials func(ctx context.Context, host, repository string) (Credential, error)
	// DockerConfig is the directory of Docker's config.json; "" for none. The
	// file is read, and its helpers are run, each time credentials are needed.
	DockerConfig string

	// Proxy picks the proxy of a request; nil: none is used. Commands pass
	// http.ProxyFromEnvironment.
	Proxy func(*http.Request) (*url.URL, error)
	// Dial replaces the dialer; nil dials TCP.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// Connect bounds one connect; default 3 s. A dial_timeout of hosts.toml may
	// only shorten it.
	Connect time.Duration
	// Idle bounds, in each attempt, the time up to the headers, connect and TLS
	// handshake included, and each wait for more of the body; default 10 s. A
	// body that keeps coming may take as long as Budget.
	Idle time.Duration
	// Budget bounds one ReadBlock over all its attempts; default 60 s.
	Budget time.Duration
	// Attempts bounds how often the hosts are gone through for one block;
	// default 10.
	Attempts int
	// Backoff is the delay after the first failed round; it doubles up to
	// MaxBackoff. Defaults 100 ms and 5 s.
	Backoff, MaxBackoff time.Duration

	// PerHost bounds the blocks read from one host at a time; default 32.
	PerHost int

	// SpoolDir and SpoolBytes are where, and how much at most, is kept of blobs
	// of registries that ignore Range. Defaults: the system's directory for
	// temporary files, 2 GiB. Files are unlinked as soon as they are made.
	SpoolDir   string
	SpoolBytes int64

	// UserAgent is sent with each request; default "faasnet".
	UserAgent string

	// Registerer takes the metrics; nil: none are registered.
	Registerer prometheus.Registerer
}

func set[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

func (o Options) complete() (Options, error) {
	set(&o.Connect, 3*time.Second)
	set(&o.Idle, 10*time.Second)
	set(&o.Budget, time.Minute)
	set(&o.Attempts, 10)
	set(&o.Backoff, 100*time.Millisecond)
	set(&o.MaxBackoff, 5*time.Second)
	set(&o.PerHost, 32)
	set(&o.SpoolBytes, 2<<30)
	set(&o.UserAgent, "faasnet")
	for _, d := range []time.Duration{o.Connect, o.Idle, o.Budget, o.Backoff, o.MaxBackoff} {
		if d < 0 {
			return o, fmt.Errorf("registry: negative duration %v: %w", d, errdefs.ErrInvalidArgument)
		}
	}
	if o.Attempts < 0 || o.PerHost < 0 || o.SpoolBytes < 0 {
		return o, fmt.Errorf("registry: negative limit: %w", errdefs.ErrInvalidArgument)
	}
	return o, nil
}
