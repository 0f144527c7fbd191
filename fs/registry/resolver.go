package registry

import (
	"net/http"

	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
)

// Hosts is containerd's docker.RegistryHosts over this Client's configuration:
// what takes it shares the hosts, connections, credentials, tokens and rate
// limits of the Client, and is good until Close.
func (c *Client) Hosts(host string) ([]docker.RegistryHost, error) {
	n, err := c.namespace(host)
	if err != nil {
		return nil, err
	}
	hosts := make([]docker.RegistryHost, len(n.endpoints))
	for i, e := range n.endpoints {
		hosts[i] = e.RegistryHost
	}
	return hosts, nil
}

// Resolver is containerd's resolver, fetcher and pusher over Hosts. Its
// references are containerd's: complete, with a host.
func (c *Client) Resolver() remotes.Resolver {
	r := docker.NewResolver(docker.ResolverOptions{
		Hosts:   c.Hosts,
		Headers: http.Header{"User-Agent": {c.opts.UserAgent}},
	})
	return quietResolver{r.(remotes.ResolverWithOptions)}
}
