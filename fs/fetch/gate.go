package fetch

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/block"
)

const (
	// staleAfter is when a flight stops holding back the fill: one
	// registry that hangs must not stop the fill of all other layers.
	staleAfter = 2 * time.Second
	// fillDrain is how long an on-demand flight may have to share the network
	// with the fill flights that it finds: from it and from what a fill flight
	// takes follows how many there may be.
	fillDrain = 100 * time.Millisecond
	// aheadSlots is how many times the slots for a blob what is fetched ahead may
	// have: 16 blocks of 170 KB keep 1 Gbit/s at a round trip of 20 ms full.
	aheadSlots = 2
)

// ticket is a flight's place in the gate. All fields are guarded by gate.mu.
type ticket struct {
	blob    digest.Digest
	size    int64
	prio    Priority
	ready   chan struct{} // closed when the slot is granted
	waiting bool
	granted bool
	urgent  bool // holds back the fill: counted in gate.urgent
	began   time.Time
	stale   *time.Timer
}

func newTicket(ref block.Ref, p Priority) *ticket {
	return &ticket{blob: ref.Blob, size: int64(ref.Size), prio: p, ready: make(chan struct{})}
}

// seat is what a flight takes of what its blob may have. What is fetched ahead
// has seats of its own, twice as many: a read on demand never waits for one.
type seat struct {
	blob  digest.Digest
	ahead bool
}

func (t *ticket) seat() seat { return seat{t.blob, t.prio == Order} }

// gate bounds the flights: in all, for each blob, and in bytes. Who waits is
// let in by priority, then in order of arrival. The fill starts a flight only
// while none is under way or waits that is on demand or in a start-up order, so it
// yields within one block; what is in flight is not stopped.
type gate struct {
	slots, blobSlots, fillSlots int
	limit                       int64 // bytes
	quiet                       time.Duration

	mu      sync.Mutex
	queue   [priorities][]*ticket
	active  int
	bytes   int64
	taken   map[seat]int
	fills   int           // active at priority Fill
	urgent  int           // tickets that hold back the fill, waiting and active
	calm    time.Time     // when the last of them left
	wake    *time.Timer   // for the fill, quiet after calm
	fillFor time.Duration // smoothed time of a fill flight
}

func newGate(o Options) *gate {
	return &gate{
		slots: o.Slots, blobSlots: o.BlobSlots, fillSlots: o.FillSlots, limit: o.InFlightBytes, quiet: o.FillQuiet,
		taken: map[seat]int{},
	}
}

// enter waits for a slot. After an error there is nothing to leave.
func (g *gate) enter(ctx context.Context, t *ticket) error {
	g.mu.Lock()
	t.waiting = true
	g.queue[t.prio] = append(g.queue[t.prio], t)
	g.press(t)
	g.admit()
	g.mu.Unlock()
	select {
	case <-t.ready:
		return nil
	case <-ctx.Done():
	}
	g.leave(t)
	return ctx.Err()
}

// leave gives the slot back, or the place in the queue.
func (g *gate) leave(t *ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.waiting {
		t.waiting = false
		g.drop(t)
	}
	if t.granted {
		t.granted = false
		g.active--
		g.bytes -= t.size
		g.stand(t)
		if t.prio == Fill {
			g.fills--
			d := time.Since(t.began)
			if g.fillFor == 0 {
				g.fillFor = d
			}
			g.fillFor += (d - g.fillFor) / 4
		}
	}
	g.relax(t)
	g.admit()
}

// raise makes t more urgent, waiting or in flight.
func (g *gate) raise(t *ticket, p Priority) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p >= t.prio {
		return
	}
	if t.waiting {
		g.drop(t)
		g.queue[p] = append(g.queue[p], t)
	}
	if t.granted {
		if t.prio == Fill {
			g.fills--
		}
		g.stand(t)
	}
	t.prio = p
	if t.granted {
		g.taken[t.seat()]++
	}
	if t.waiting || t.granted {
		g.press(t)
	}
	g.admit()
}

// stand gives back the seat of t.
func (g *gate) stand(t *ticket) {
	s := t.seat()
	if g.taken[s]--; g.taken[s] == 0 {
		delete(g.taken, s)
	}
}

// full reports whether all seats for t are taken.
func (g *gate) full(t *ticket) bool {
	limit := g.blobSlots
	if t.prio == Order {
		limit *= aheadSlots
	}
	return g.taken[t.seat()] >= limit
}

// most is how many flights there may be in all when one of priority p begins. What
// is fetched ahead may hang longer than a read on demand may wait: of however many
// layers it is, slots are left.
func (g *gate) most(p Priority) int {
	if p == Order {
		return g.slots - g.slots/4
	}
	return g.slots
}

// drop takes t out of its queue.
func (g *gate) drop(t *ticket) {
	if i := slices.Index(g.queue[t.prio], t); i >= 0 {
		g.queue[t.prio] = slices.Delete(g.queue[t.prio], i, i+1)
	}
}

// press holds the fill back for t, for a while, if t is on demand or in an order.
func (g *gate) press(t *ticket) {
	if t.prio != OnDemand && t.prio != Order || t.urgent {
		return
	}
	t.urgent = true
	g.urgent++
	t.stale = time.AfterFunc(staleAfter, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.relax(t)
		g.admit()
	})
}

// relax is the opposite of press.
func (g *gate) relax(t *ticket) {
	if !t.urgent {
		return
	}
	t.urgent = false
	t.stale.Stop()
	g.urgent--
	g.calm = time.Now()
}

// admit lets in whom there is room for. The caller holds mu.
func (g *gate) admit() {
	for p := range g.queue {
		if Priority(p) == Fill && !g.mayFill() {
			return
		}
		for i := 0; i < len(g.queue[p]); {
			t := g.queue[p][i]
			if g.active >= g.most(Priority(p)) || g.active > 0 && g.bytes+t.size > g.limit {
				return // nobody less urgent passes
			}
			if g.full(t) {
				i++
				continue
			}
			g.queue[p] = slices.Delete(g.queue[p], i, i+1)
			g.grant(t)
			if t.prio == Fill && !g.mayFill() {
				return
			}
		}
	}
}

func (g *gate) grant(t *ticket) {
	t.waiting, t.granted, t.began = false, true, time.Now()
	g.active++
	g.bytes += t.size
	g.taken[t.seat()]++
	if t.prio == Fill {
		g.fills++
	}
	close(t.ready)
}

// mayFill reports whether one more fill flight may start. While it is only too
// soon, it sees to it that admit runs again.
func (g *gate) mayFill() bool {
	limit := g.fillSlots
	if g.fillFor > 0 {
		limit = min(limit, int(fillDrain/g.fillFor))
	}
	if g.urgent > 0 || g.fills >= max(1, limit) || len(g.queue[Fill]) == 0 {
		return false
	}
	wait := time.Until(g.calm.Add(g.quiet))
	if g.calm.IsZero() || wait <= 0 {
		return true
	}
	if g.wake == nil {
		g.wake = time.AfterFunc(wait, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.wake = nil
			g.admit()
		})
	}
	return false
}

func (g *gate) flights() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.active
}
