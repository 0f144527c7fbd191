package coordinator

import (
	"context"

	"github.com/faasnet/faasnet/treeclient/treepb"
)

// Journal keeps trees outside of this process, and says which coordinator
// keeps which. A coordinator works without any of it taking effect.
type Journal interface {
	// Owner returns the address of the coordinator that keeps k, "" for this
	// one. unreachable are coordinators that a VM has tried in vain. It is
	// called under the coordinator's lock and must not block.
	Owner(k Key, unreachable []string) string
	// Scheduler returns where schedulers reach a coordinator that Owner named,
	// "" where that is not known. It does not block.
	Scheduler(owner string) string
	// Changed says that the tree of k is another one now, or is no more. It is
	// called under the coordinator's lock and must not block.
	Changed(k Key)
	// Run reads and writes trees until ctx ends. Trouble with where they are
	// kept is no reason to return.
	Run(ctx context.Context, t Trees) error
}

// Trees is what a Journal sees of a Coordinator.
type Trees interface {
	// Tree returns the tree of k as it is now, nil if there is none.
	Tree(k Key) *treepb.Tree
	// Restore tells what the tree of k was when another coordinator, or an
	// earlier run of this one, kept it.
	Restore(k Key, t *treepb.Tree)
	// Rehome sends VMs away whose functions belong to other coordinators now.
	Rehome()
}

// Rehome sends VMs away whose functions belong to other coordinators now.
// They keep their places until the new owner gives them others.
func (c *Coordinator) Rehome() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, g := range c.groves {
		owner := c.opts.Journal.Owner(k, nil)
		if owner == "" {
			continue
		}
		for _, at := range g.seats {
			delete(at.session.seats, k.Function)
			delete(c.suspended, at)
			at.session.redirect(k.Function, owner)
		}
		delete(c.settling, g)
		delete(c.groves, k)
	}
}

// nothing is the Journal of a coordinator that keeps its trees in memory.
type nothing struct{}

func (nothing) Owner(Key, []string) string { return "" }
func (nothing) Scheduler(string) string    { return "" }
func (nothing) Changed(Key)                {}
func (nothing) Run(ctx context.Context, _ Trees) error {
	<-ctx.Done()
	return nil
}
