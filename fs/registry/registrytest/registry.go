// Package registrytest is an OCI registry for tests: it serves manifests,
// blobs, tags, uploads and cross-repository mounts as a registry does, and
// spoils the answers that a test tells it to spoil. It records every request.
//
// A Registry listens on loopback, or on a Net, which is a network in memory
// that works in a bubble of testing/synctest.
package registrytest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
)

// Options says how a Registry is made. The zero value is a registry in memory,
// plain http, without authentication, on a free port of 127.0.0.1.
type Options struct {
	Addr     string       // to listen on; default 127.0.0.1:0
	Listener net.Listener // instead of Addr; closed by the Registry
	Name     string       // host:port that clients use; default: the listener's address
	Dir      string       // where blobs are kept; default in memory
	TLS      TLS          // which of TLS and plain http are spoken on the port
	Auth     *Auth        // who may do what; nil: everybody everything
	Limit    *Limit       // rate limit; nil: none
	Redirect *Redirect    // blobs are served by another host; nil: by the registry
}

// Registry is a running registry. It is safe for concurrent use.
type Registry struct {
	name   string
	scheme string
	ca     []byte // PEM; nil without TLS
	blobs  store
	auth   *Auth
	data   *dataHost // nil without Redirect
	limit  *limiter
	conns  *splitter
	done   chan struct{} // closed by Close: stalled answers end
	close  func()

	record

	mu    sync.Mutex // guards all below
	repos map[string]*repo
	rules []*rule
	ups   map[string]*upload
	next  int // number of the next upload
}

// repo is one repository: which blobs it has, which manifests, what its tags
// name. Guarded by Registry.mu.
type repo struct {
	blobs     map[digest.Digest]bool
	manifests map[digest.Digest]string // to media type; the bytes are a blob
	tags      map[string]digest.Digest
}

// New starts a registry that ends with the test.
func New(tb testing.TB, o Options) *Registry {
	tb.Helper()
	r, err := Start(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(r.Close)
	return r
}

// Start starts a registry. The caller closes it.
func Start(o Options) (*Registry, error) {
	lis, err := o.listen()
	if err != nil {
		return nil, err
	}
	r := &Registry{
		name:  o.Name,
		auth:  o.Auth,
		done:  make(chan struct{}),
		repos: map[string]*repo{},
		ups:   map[string]*upload{},
	}
	if r.name == "" {
		r.name = lis.Addr().String()
	}
	if r.blobs, err = newStore(o.Dir); err != nil {
		return nil, errors.Join(err, lis.Close())
	}
	if o.Limit != nil {
		r.limit = &limiter{Limit: *o.Limit}
	}
	if r.auth != nil {
		r.auth.start(r.name)
	}
	if r.conns, r.scheme, r.ca, err = split(lis, o.TLS, r.name); err != nil {
		return nil, errors.Join(err, lis.Close())
	}
	stop := r.conns.serve(http.HandlerFunc(r.serve))
	r.close = sync.OnceFunc(func() { close(r.done); stop() })
	if o.Redirect != nil {
		if r.data, err = startData(r, *o.Redirect); err != nil {
			r.close()
			return nil, err
		}
	}
	return r, nil
}

func (o Options) listen() (net.Listener, error) {
	if o.Listener != nil {
		return o.Listener, nil
	}
	addr := o.Addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	lis, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("registrytest: %w", err)
	}
	return lis, nil
}

// Close stops the registry and ends its connections; it waits for its
// handlers. It may be called more than once.
func (r *Registry) Close() {
	r.close()
	if r.data != nil {
		r.data.close()
	}
}

// Host returns the host:port that references to this registry begin with.
func (r *Registry) Host() string { return r.name }

// Addr returns the address that the registry listens on.
func (r *Registry) Addr() string { return r.conns.Addr().String() }

// URL returns scheme://host:port of the registry.
func (r *Registry) URL() string { return r.scheme + "://" + r.name }

// CA returns the certificate, in PEM, that the registry shows; nil without TLS.
func (r *Registry) CA() []byte { return r.ca }

// Data returns what was asked of the host that blobs are redirected to; nil
// without Redirect.
func (r *Registry) Data() *Data {
	if r.data == nil {
		return nil
	}
	return r.data.Data
}

// Handshakes returns how many connections began with a TLS handshake.
func (r *Registry) Handshakes() int { return int(r.conns.hellos.Load()) }

// Conns returns how many connections were accepted.
func (r *Registry) Conns() int { return int(r.conns.accepted.Load()) }

// AddBlob puts a blob into a repository, past the API.
func (r *Registry) AddBlob(name string, src io.Reader) (digest.Digest, int64, error) {
	d, n, err := r.blobs.put(src)
	if err != nil {
		return "", 0, fmt.Errorf("registrytest: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.repo(name).blobs[d] = true
	return d, n, nil
}

// DeleteRepo forgets a repository: its blobs, manifests and tags.
func (r *Registry) DeleteRepo(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.repos, name)
}

// repo returns the repository, made when it is new. r.mu is held.
func (r *Registry) repo(name string) *repo {
	p := r.repos[name]
	if p == nil {
		p = &repo{blobs: map[digest.Digest]bool{}, manifests: map[digest.Digest]string{}, tags: map[string]digest.Digest{}}
		r.repos[name] = p
	}
	return p
}

// pause waits for d, or until the client has gone or the registry closes.
func (r *Registry) pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-r.done:
	}
	return false
}
