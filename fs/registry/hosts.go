package registry

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	"github.com/containerd/errdefs"
	"github.com/containerd/log"
)

// recheck is how long the files of a host are trusted to be unchanged.
const recheck = 10 * time.Second

// namespace is what the host of a reference leads to: endpoints in the order
// in which they are asked.
type namespace struct {
	endpoints []*endpoint
	files     string    // what the files looked like that say so
	checked   time.Time // guarded by Client.mu
}

// endpoint is one host that serves a namespace.
type endpoint struct {
	docker.RegistryHost                 // Client and Authorizer are ours
	ns                  string          // for mirrors: the namespace asked for; else ""
	home                *paced          // to it
	others              *paced          // to other hosts that it sends us to
	bare                *http.Transport // below both
	fallback            bool            // home has containerd's fallback to http
	lane                *lane
	direct              atomic.Bool // the last blob came from it, not from a redirect
}

func (n *namespace) close() {
	for _, e := range n.endpoints {
		e.bare.CloseIdleConnections()
	}
}

// namespace returns the endpoints of the host of a reference.
func (c *Client) namespace(host string) (*namespace, error) {
	c.mu.Lock()
	n, closed := c.hosts[host], c.closed
	fresh := n != nil && time.Since(n.checked) < recheck
	c.mu.Unlock()
	if closed {
		return nil, errClosed
	}
	if fresh {
		return n, nil
	}
	dir, err := c.hostDir(host)
	if err != nil {
		return nil, err
	}
	files := fingerprint(dir)
	if n == nil || n.files != files {
		if n, err = c.configure(host, dir); err != nil {
			return nil, err
		}
		n.files = files
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		n.close()
		return nil, errClosed
	}
	if old := c.hosts[host]; old != nil && old != n {
		if old.files == files {
			n.close()
			n = old // another call was quicker
		} else {
			old.close()
		}
	}
	n.checked = time.Now()
	c.hosts[host] = n
	return n, nil
}

// hostDir finds the directory with the configuration of a host; "" for none.
func (c *Client) hostDir(host string) (string, error) {
	for _, root := range c.opts.HostsDirs {
		dir, err := config.HostDirFromRoot(root)(host)
		if err == nil {
			return dir, nil
		}
		if !errdefs.IsNotFound(err) {
			return "", fmt.Errorf("configuration of registry %s: %w", host, err)
		}
	}
	return "", nil
}

// fingerprint changes when a file in dir does.
func fingerprint(dir string) string {
	if dir == "" {
		return ""
	}
	var b strings.Builder
	b.WriteString(dir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return b.String() + err.Error()
	}
	for _, e := range entries {
		if st, err := os.Stat(filepath.Join(dir, e.Name())); err == nil {
			fmt.Fprintf(&b, "\n%s %d %d", e.Name(), st.Size(), st.ModTime().UnixNano())
		}
	}
	return b.String()
}

// configure asks containerd's code which hosts serve a namespace, and puts our
// transport and our authorizer into its answer.
func (c *Client) configure(host, dir string) (*namespace, error) {
	bare := map[*http.Client]*http.Transport{}
	o := config.HostOptions{
		HostDir: func(string) (string, error) { return dir, nil },
		UpdateClient: func(h *http.Client) error {
			t, ok := h.Transport.(*http.Transport)
			if !ok {
				return fmt.Errorf("transport is a %T: %w", h.Transport, errdefs.ErrInternal)
			}
			c.tune(t)
			bare[h] = t
			return nil
		},
	}
	switch {
	case slices.Contains(c.opts.PlainHTTP, host):
		o.DefaultScheme = "http"
	case slices.Contains(c.opts.SkipVerify, host):
		o.DefaultScheme = "https"
		if dir == "" {
			o.DefaultTLS = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // configured for this host
		}
	}
	// Its info line about http on loopback is no news to anybody.
	ctx := atMost(log.WithLogger(c.ctx, log.L.WithField("registry", host)), log.WarnLevel)
	found, err := config.ConfigureHosts(ctx, o)(host)
	if err != nil {
		return nil, fmt.Errorf("configuration of registry %s: %w", host, err)
	}
	n := &namespace{}
	for _, h := range found {
		e := &endpoint{RegistryHost: h, bare: bare[h.Client], lane: c.lane(h.Host)}
		e.fallback = h.Client.Transport != http.RoundTripper(e.bare)
		e.home, e.others = &paced{c, h.Client.Transport}, &paced{c, e.bare}
		if h.Host != host && (host != "docker.io" || h.Host != "registry-1.docker.io") {
			e.ns = host
		}
		e.Header = canonical(h.Header)
		e.Client = &http.Client{Transport: redirecting{e}}
		e.Authorizer = &authorizer{tokens: c.tokens, endpoint: e}
		n.endpoints = append(n.endpoints, e)
	}
	if len(n.endpoints) == 0 {
		return nil, fmt.Errorf("registry %s has no hosts: %w", host, errdefs.ErrNotFound)
	}
	return n, nil
}

// canonical gives header names, as a file has them, their usual form: else they
// would be found by some and not by others.
func canonical(h http.Header) http.Header {
	if h == nil {
		return nil
	}
	out := http.Header{}
	for k, v := range h {
		k = http.CanonicalHeaderKey(k)
		out[k] = append(out[k], v...)
	}
	return out
}

// pull returns the endpoints that may serve blobs.
func (n *namespace) pull() []*endpoint {
	seen := map[string]bool{} // a file often names the server once more as a host
	return slices.DeleteFunc(slices.Clone(n.endpoints), func(e *endpoint) bool {
		k := e.key()
		if seen[k] || !e.Capabilities.Has(docker.HostCapabilityPull) {
			return true
		}
		seen[k] = true
		return false
	})
}

// url returns where the endpoint has an object of a repository.
func (e *endpoint) url(repository, kind, object string) *url.URL {
	u := &url.URL{Scheme: e.Scheme, Host: e.Host, Path: path.Join("/", e.Path, repository, kind, object)}
	if e.ns != "" {
		u.RawQuery = url.Values{"ns": {e.ns}}.Encode()
	}
	return u
}

// key names the endpoint among all of a process.
func (e *endpoint) key() string { return e.Scheme + "://" + e.Host + e.Path }
