package coordinator

import (
	"sync"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

// backlog bounds the changes that a watcher may be behind.
const backlog = 1024

// watches hands changes to watchers. A watcher that falls behind is cut off
// and told so, rather than left with a gap.
type watches struct {
	mu       sync.Mutex // no other lock is taken under it
	watchers map[*watch]bool
}

type watch struct {
	all     bool
	key     Key
	changes chan *treepb.Change
}

// open begins a watch of one function, of all without an id.
func (w *watches) open(f *treepb.Function) *watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watchers == nil {
		w.watchers = map[*watch]bool{}
	}
	n := &watch{all: f.GetId() == "", key: keyOf(f), changes: make(chan *treepb.Change, backlog)}
	w.watchers[n] = true
	return n
}

func (w *watches) close(n *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.watchers, n)
}

func (w *watches) publish(g *grove, moves []tree.Move, joined, left tree.VM) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.watchers) == 0 {
		return
	}
	change := &treepb.Change{
		Function: &treepb.Function{Tenant: g.key.Tenant, Id: g.key.Function},
		Epoch:    g.epoch(), Joined: string(joined), Left: string(left), Moves: wireMoves(moves),
	}
	for n := range w.watchers {
		if !n.all && n.key != g.key {
			continue
		}
		select {
		case n.changes <- change:
		default:
			delete(w.watchers, n)
			close(n.changes)
		}
	}
}
