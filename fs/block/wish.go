package block

import (
	"context"
	"sync"
)

// Urgency is how soon a block is wanted.
type Urgency int

// Urgencies, the most urgent first.
const (
	Now   Urgency = iota // somebody waits for it
	Soon                 // somebody is about to read it
	Later                // the rest of a layer
)

// Wish is how urgent a read is, which may rise while it runs. The nil Wish is
// Now. It is safe for concurrent use.
type Wish struct {
	mu      sync.Mutex // no other lock is taken under it
	urgency Urgency
	risen   chan struct{}
}

// NewWish returns a Wish that is as urgent as u so far.
func NewWish(u Urgency) *Wish { return &Wish{urgency: u, risen: make(chan struct{})} }

// Raise makes w at least as urgent as u.
func (w *Wish) Raise(u Urgency) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if u < w.urgency {
		w.urgency = u
		close(w.risen)
		w.risen = make(chan struct{})
	}
}

// Urgency returns how urgent w is, and what is closed when it is more so; nil
// where that cannot be.
func (w *Wish) Urgency() (u Urgency, risen <-chan struct{}) {
	if w == nil {
		return Now, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.urgency == Now {
		return Now, nil
	}
	return w.urgency, w.risen
}

type wishKey struct{}

// WithWish says how urgent reads under ctx are.
func WithWish(ctx context.Context, w *Wish) context.Context {
	return context.WithValue(ctx, wishKey{}, w)
}

// WishOf returns what WithWish has said, nil if nothing.
func WishOf(ctx context.Context) *Wish {
	w, _ := ctx.Value(wishKey{}).(*Wish)
	return w
}
