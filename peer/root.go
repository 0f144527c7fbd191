package peer

import (
	"fmt"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
)

// Root returns nil where a block is for this VM to read from the origin: it is the
// root of the block's stripe in a tree that it is in. Otherwise the error, a
// errdefs.ErrFailedPrecondition, says what it is instead.
func (r *Relay) Root(ref block.Ref) error {
	at := r.opts.Catalog.find(ref)
	r.mu.Lock()
	defer r.mu.Unlock()
	why := "it is of no function that this VM knows"
	for _, a := range at {
		p := r.places[a.function]
		if p == nil {
			why = "this VM has no place in the tree of " + a.function
			continue
		}
		up := p.place.Stripes[a.number%len(p.place.Stripes)].Upstream.VM
		if up == "" || up == r.opts.VM {
			return nil
		}
		why = fmt.Sprintf("in the tree of %s this VM reads from %s", a.function, up)
	}
	return fmt.Errorf("%v: %s: %w", ref, why, errdefs.ErrFailedPrecondition)
}
