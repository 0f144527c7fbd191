package treeclient

import (
	"crypto/ed25519"
	"slices"
	"time"

	"github.com/faasnet/faasnet/treeclient/treepb"
)

const (
	// askAgain is after how long a VM asks again that was refused for want of
	// room.
	askAgain = 10 * time.Second
	// A redirect to a coordinator that could not be reached, or that has itself
	// sent the function away, is followed after a time that doubles:
	// coordinators that disagree, or one that is dead, must not make a storm.
	firstHop = 250 * time.Millisecond
	lastHop  = 2 * time.Second
	// maxKeys bounds the token keys that are kept, the newest last.
	maxKeys = 8
)

// welcomed takes what the coordinator says of itself, and reports whether it
// was away.
func (l *link) welcomed(w *treepb.Welcome) (back bool) {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	back = len(c.away[l.address]) > 0
	delete(c.away, l.address)
	c.tenant, c.most = w.Tenant, int(w.MaxFunctions)
	key := ed25519.PublicKey(w.TokenKey)
	c.keys = slices.DeleteFunc(c.keys, func(k ed25519.PublicKey) bool { return k.Equal(key) })
	if len(key) == ed25519.PublicKeySize {
		c.keys = append(c.keys, key)
	}
	if len(c.keys) > maxKeys {
		c.keys = c.keys[1:]
	}
	return back
}

// answered returns the function that a message of l is about, nil when it is
// not for l to say. c.mu is held.
func (l *link) answered(name string) *function {
	l.overdue = false
	f := l.c.functions[name]
	if f == nil || f.at != l.address {
		return nil
	}
	return f
}

// assigned takes a place. It may be in a function that this VM has not asked
// for: then the scheduler has.
func (l *link) assigned(a *treepb.Assignment) {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	f := l.answered(a.Function)
	if f == nil && a.Inserted && c.functions[a.Function] == nil && len(c.functions) < c.most {
		f = newFunction(a.Function, l.address)
		c.functions[a.Function] = f
	}
	if f == nil || len(a.Stripes) == 0 {
		return
	}
	f.answered()
	f.refused = ""
	c.set(f, placeOf(a))
}

func (l *link) refused(r *treepb.Refusal) {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	f := l.answered(r.Function)
	if f == nil {
		return
	}
	f.answered()
	f.refused = r.Reason
	switch {
	case r.Again == treepb.Refusal_AGAIN_LATER:
		c.askLater(f, f.at, jitter(askAgain))
	case r.Again == treepb.Refusal_AGAIN_ACTIVE && f.wanted:
		f.dormant = true
	case r.Again == treepb.Refusal_AGAIN_WAIT:
	default:
		delete(c.functions, r.Function) // the next Join asks anew
	}
	c.set(f, Place{})
	c.trim(l)
}

// redirected brings a function to the coordinator that keeps it.
func (l *link) redirected(r *treepb.Redirect) {
	c := l.c
	c.mu.Lock()
	f := l.answered(r.Function)
	if f == nil || r.Address == "" || r.Address == l.address {
		c.mu.Unlock()
		return
	}
	f.sentBy = remember(f.sentBy, l.address)
	if slices.Contains(f.unreachable, r.Address) || slices.Contains(f.sentBy, r.Address) {
		c.askLater(f, r.Address, jitter(min(firstHop<<min(f.hops, 8), lastHop)))
		f.hops++
		c.mu.Unlock()
		return
	}
	f.at = r.Address
	c.trim(l)
	c.mu.Unlock()
	c.ask(f)
}
