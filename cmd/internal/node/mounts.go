package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs"
	"github.com/faasnet/faasnet/fs/fetch"
)

// shared is one mount of a run and all who use it.
type shared struct {
	key    string
	tree   tree
	layers []*fetch.Layer // its devices, open
	blobs  []digest.Digest
	users  int // snapshots, and flights' waiters that have not taken it; guarded by Node.mu
}

// outdated tells that the mount goes through the daemon although all its layers
// are local files by now: a new user gets a new mount, the old one goes with
// its last user. Node.mu is held, and the layers' locks are taken under it.
func (s *shared) outdated() bool {
	if s.tree.Local() {
		return false
	}
	for _, l := range s.layers {
		if _, ok := l.Local(); !ok {
			return false
		}
	}
	return true
}

// close unmounts before it lets go of the layers that the mount reads.
func (s *shared) close() error {
	if err := s.tree.Close(); err != nil {
		return err
	}
	return closeLayers(s.layers)
}

func closeLayers(layers []*fetch.Layer) error {
	var errs []error
	for _, l := range layers {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// flight is one mount being made, for all who want it.
type flight struct {
	run     run
	done    chan struct{}
	waiters int // guarded by Node.mu
	shared  *shared
	err     error // both valid after done
}

// Mount gives user a directory that shows the merge of run on top of lower, until Release.
// Snapshots that show the same share one mount.
func (n *Node) Mount(ctx context.Context, user string, labels []map[string]string, lower []string) (string, error) {
	if n.driver == nil {
		return "", fmt.Errorf("%w: %w", n.lacking, errdefs.ErrUnavailable)
	}
	f, dir, err := n.board(user, labels, lower) //nolint:contextcheck // a flight outlives its callers
	if f == nil {
		return dir, err
	}
	select {
	case <-f.done:
		return n.land(f, user)
	case <-ctx.Done():
		n.leave(f)
		return "", fmt.Errorf("metadata of the image is not here yet: %w: %w", context.Cause(ctx), errdefs.ErrUnavailable)
	}
}

// board finds the mount that user wants, or takes part in the flight that makes it.
func (n *Node) board(user string, labels []map[string]string, lower []string) (*flight, string, error) {
	n.retaining.RLock() // what run remembers is not forgotten before the flight is known
	defer n.retaining.RUnlock()
	r, err := n.run(labels, lower)
	if err != nil {
		return nil, "", err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if s, ok := n.users[user][r.key]; ok {
		return nil, s.tree.Dir(), nil
	}
	if s := n.mounts[r.key]; s != nil && !s.outdated() {
		n.take(s, user)
		return nil, s.tree.Dir(), nil
	}
	f, err := n.join(r)
	return f, "", err
}

// take makes user one of s. n.mu is held.
func (n *Node) take(s *shared, user string) {
	if n.users[user] == nil {
		n.users[user] = map[string]*shared{}
	}
	n.users[user][s.key] = s
	s.users++
}

// join takes part in the flight for r, or starts one. n.mu is held.
func (n *Node) join(r run) (*flight, error) {
	f := n.flights[r.key]
	if f == nil {
		if n.closed {
			return nil, fmt.Errorf("node is closed: %w", errdefs.ErrUnavailable)
		}
		f = &flight{run: r, done: make(chan struct{})}
		n.flights[r.key] = f
		n.work.Go(func() { n.fly(f) })
	}
	f.waiters++
	return f, nil
}

// fly makes the mount. It holds one use of it until the waiters have theirs.
func (n *Node) fly(f *flight) {
	ctx, cancel := context.WithTimeout(n.ctx, n.mountTimeout)
	defer cancel()
	start := time.Now()
	f.shared, f.err = n.make(ctx, f.run)
	n.metrics.mounted(start, f.err)
	n.mu.Lock()
	delete(n.flights, f.run.key)
	unwanted := f.shared != nil && f.waiters == 0
	if f.shared != nil && !unwanted {
		f.shared.users = f.waiters
		n.mounts[f.run.key], n.dirs[f.shared.tree.Dir()] = f.shared, f.shared
	}
	n.mu.Unlock()
	close(f.done)
	if unwanted { // what it fetched is kept while the image is there, the next one is quick
		n.drop(f.shared)
	} else {
		n.swept()
	}
}

// make fetches the metadata of r and mounts it.
func (n *Node) make(ctx context.Context, r run) (_ *shared, err error) {
	p, err := n.plan(ctx, r)
	if err != nil {
		return nil, err
	}
	n.ahead(r.function, p.devices, p.news)
	s := &shared{key: r.key}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeLayers(s.layers))
		}
	}()
	files := make([]fs.File, len(p.devices))
	for i, d := range p.devices {
		l, err := n.fetcher.Layer(d.blob, d.table)
		if err != nil {
			return nil, err
		}
		s.layers, s.blobs = append(s.layers, l), append(s.blobs, d.blob)
		files[i] = device{l}
	}
	if s.tree, err = n.driver.Mount(ctx, p.image, files); err != nil {
		return nil, err
	}
	if n.cfg.BackgroundFetch {
		for _, l := range s.layers {
			l.Fill()
		}
	}
	return s, nil
}

// land turns the place in a flight that has ended into a use of its mount.
func (n *Node) land(f *flight, user string) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f.waiters--
	s := f.shared
	if f.err != nil {
		if s = n.mounts[f.run.key]; s == nil { // else an older mount, which is as good
			return "", f.err
		}
	} else {
		s.users--
	}
	n.take(s, user)
	return s.tree.Dir(), nil
}

// leave gives up the place in a flight.
func (n *Node) leave(f *flight) {
	n.mu.Lock()
	f.waiters--
	var last *shared
	select {
	case <-f.done: // it ended at the same moment
		if s := f.shared; s != nil {
			if s.users--; s.users == 0 {
				n.forget(s)
				last = s
			}
		}
	default:
	}
	n.mu.Unlock()
	if last != nil {
		n.drop(last)
	}
}
