// Package registry reads ranges of blobs from OCI registries: it knows hosts,
// mirrors, credentials, tokens, redirects and limits, so that all else sees a
// block.Source. It is the one place where the product speaks to a registry:
// Resolver gives containerd's push and pull over the same hosts and
// credentials.
//
// Which hosts serve a name, with which certificates and headers, is decided by
// containerd's own code (core/remotes/docker/config), so that a hosts.toml
// means here what it means to containerd.
//
// No error and no log line has a credential, a token or the query of a URL.
package registry

import (
	"context"
	"fmt"
	"sync"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
)

// Client reads from registries. It is safe for concurrent use, and what it
// learns of hosts, tokens and redirects is shared by all who use it: one is
// enough for a process.
type Client struct {
	opts    Options
	creds   credentials
	tokens  *tokens
	spool   *spool
	metrics *metrics

	ctx    context.Context //nolint:containedctx // ends with Close, for what outlives the call that started it
	cancel context.CancelFunc
	tasks  sync.WaitGroup // goroutines that outlive the call that started them

	mu     sync.Mutex // guards all below; never held over a request
	closed bool
	hosts  map[string]*namespace  // by the host of references
	lanes  map[string]*lane       // by host:port of requests
	repos  map[string]*repository // by host/path of references
}

// New makes a Client. It opens nothing; Close it all the same.
func New(o Options) (*Client, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	c := &Client{
		opts:    o,
		creds:   credentials{ask: o.Credentials, dir: o.DockerConfig, timeout: o.Idle},
		metrics: m,
		hosts:   map[string]*namespace{},
		lanes:   map[string]*lane{},
		repos:   map[string]*repository{},
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.tokens = newTokens(c)
	c.spool = newSpool(o.SpoolDir, o.SpoolBytes)
	return c, nil
}

// Close ends what is under way, waits for it, and closes connections. Reads
// that come later fail. It may be called more than once.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.tasks.Wait()
	c.mu.Lock()
	hosts := c.hosts
	c.hosts = map[string]*namespace{}
	c.mu.Unlock()
	for _, n := range hosts {
		n.close()
	}
	c.spool.close()
	return nil
}

// enter counts a task that Close waits for; false after Close.
func (c *Client) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.tasks.Add(1)
	}
	return !c.closed
}

// start runs f in a goroutine that Close waits for; false after Close.
func (c *Client) start(f func()) bool {
	if !c.enter() {
		return false
	}
	go func() {
		defer c.tasks.Done()
		f()
	}()
	return true
}

var errClosed = fmt.Errorf("registry client is closed: %w", errdefs.ErrUnavailable)

// Blobs returns the blobs of the repository that ref, an image reference as
// people write it, names. Its blocks have the right length and come from the
// right place in the blob, but their sums are not checked unless several hosts
// serve the repository: then a host with wrong bytes is passed over.
//
// A block is read within Options.Budget, or the error matches
// errdefs.ErrUnavailable; errdefs.ErrNotFound when no host has the blob,
// errdefs.ErrUnauthenticated and errdefs.ErrPermissionDenied when none may be
// read from.
func (c *Client) Blobs(ref string) (block.Source, error) {
	name, err := parse(ref)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	r := c.repos[name.String()]
	if r == nil {
		r = &repository{c: c, name: name, blobs: map[blobKey]*blob{}}
		c.repos[name.String()] = r
	}
	return r, nil
}
