package node

import (
	"context"
	"errors"

	"github.com/containerd/log"
	"github.com/opencontainers/go-digest"
)

// Release gives back all mounts of user.
func (n *Node) Release(_ context.Context, user string) error {
	n.mu.Lock()
	var last []*shared
	for _, s := range n.users[user] {
		if s.users--; s.users == 0 {
			n.forget(s)
			last = append(last, s)
		}
	}
	delete(n.users, user)
	n.mu.Unlock()
	for _, s := range last {
		n.drop(s)
	}
	return nil
}

// forget takes a mount without users out of the tables. n.mu is held.
func (n *Node) forget(s *shared) {
	if n.mounts[s.key] == s {
		delete(n.mounts, s.key)
	}
	delete(n.dirs, s.tree.Dir())
}

// drop closes a mount that nobody uses, and leaves nothing of an image that was
// removed meanwhile. One that cannot be unmounted now is tried again with the next
// Retain.
func (n *Node) drop(s *shared) {
	if err := s.close(); err != nil {
		log.G(n.ctx).WithError(err).Warn("mount is left for later")
		n.mu.Lock()
		n.dying = append(n.dying, s)
		n.mu.Unlock()
	}
	n.swept()
}

// swept is resweep for those who have nobody to tell.
func (n *Node) swept() {
	if err := n.resweep(); err != nil {
		log.G(n.ctx).WithError(err).Warn("something of a removed image is left for later")
	}
}

// bury tries again what could not be unmounted.
func (n *Node) bury() error {
	n.mu.Lock()
	dying := n.dying
	n.dying = nil
	n.mu.Unlock()
	var errs []error
	for _, s := range dying {
		if err := s.close(); err != nil {
			errs = append(errs, err)
			n.mu.Lock()
			n.dying = append(n.dying, s)
			n.mu.Unlock()
		}
	}
	return errors.Join(errs...)
}

// inUse gives the blobs of all mounts, and of those that are being made, and the
// layers of each function that one of the latter is of.
func (n *Node) inUse() (map[digest.Digest]bool, map[string][]digest.Digest) {
	n.mu.Lock()
	defer n.mu.Unlock()
	blobs, functions := map[digest.Digest]bool{}, map[string][]digest.Digest{}
	for _, s := range n.dirs {
		for _, d := range s.blobs {
			blobs[d] = true
		}
	}
	for _, f := range n.flights {
		for _, info := range f.run.layers {
			blobs[info.Digest] = true
			functions[f.run.function] = append(functions[f.run.function], info.Digest)
		}
	}
	return blobs, functions
}
