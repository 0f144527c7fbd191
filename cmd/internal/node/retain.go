package node

import (
	"context"
	"errors"

	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/layer"
)

// listing is a layer that somebody told us of, and the function that it is of.
type listing struct {
	blob     digest.Digest
	function string
}

// list remembers a layer of which it is known that it exists. n.retaining is
// read-locked.
func (n *Node) list(labels map[string]string, info layer.Info) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listed[listing{info.Digest, functionOf(labels, info)}] = struct{}{}
}

// Retain drops all that belongs to no layer of live, and to no mount.
func (n *Node) Retain(_ context.Context, live []map[string]string) error {
	n.relist(live)
	return errors.Join(n.bury(), n.sweep())
}

// relist knows the layers of live only. The first list after a start is what an
// earlier daemon left: this VM is in the trees of those functions again, and
// gives others what it has stored, before it mounts any.
func (n *Node) relist(live []map[string]string) {
	n.retaining.Lock()
	defer n.retaining.Unlock()
	n.mu.Lock()
	clear(n.listed)
	n.mu.Unlock()
	for _, labels := range live {
		info, err := n.origins.parse(labels)
		if err != nil {
			continue
		}
		n.list(labels, info)
		if name := functionOf(labels, info); !n.recalled && n.fleet.know(name, info) {
			n.enter(name, info.Image, true)
		}
	}
	n.recalled = true
	n.forgetGone()
}

// sweep drops what is neither known nor in use, whatever of it is still on the way:
// the store takes no more of it.
func (n *Node) sweep() error {
	n.retaining.Lock()
	n.forgetGone()
	n.retaining.Unlock()
	return errors.Join(n.merged.retain(n.origins.has), n.store.Retain(n.origins.has))
}

// resweep sweeps if something was kept for its users only, one of which has left.
func (n *Node) resweep() error {
	n.retaining.RLock()
	lent := n.lent
	n.retaining.RUnlock()
	n.mu.Lock()
	closed := n.closed
	n.mu.Unlock()
	if !lent || closed {
		return nil
	}
	return n.sweep()
}

// forgetGone forgets where layers come from, and of which function they are, that
// are neither listed nor of a mount. n.retaining is locked.
func (n *Node) forgetGone() {
	blobs, functions := n.inUse()
	listed := map[digest.Digest]bool{}
	n.mu.Lock()
	for l := range n.listed {
		listed[l.blob] = true
		functions[l.function] = append(functions[l.function], l.blob)
	}
	n.mu.Unlock()
	n.lent = false
	for blob := range blobs {
		n.lent = n.lent || !listed[blob]
	}
	n.fleet.retain(functions)
	n.origins.retain(func(d digest.Digest) bool { return listed[d] || blobs[d] })
	n.starts.retain(n.origins.has)
}
