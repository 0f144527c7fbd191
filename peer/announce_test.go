package peer

import (
	"testing"
	"time"
)

// To a follower that has the blocks that we receive nothing of them is sent.
func TestFollowerThatHasTheBlocksIsSentNone(t *testing.T) {
	inWorld(t, 32, func(w *world) {
		t := w.t
		w.registry(8 * mbit)
		a, b := w.start("a", 8*mbit), w.start("b", 8*mbit)
		b.mustReadAll()
		w.chain(a, b)
		time.Sleep(100 * time.Millisecond) // it follows
		a.mustReadAll()
		if n := b.relay.metrics.unwanted.Load(); n < 24 {
			t.Errorf("%d blocks were announced", n)
		}
		if _, received := b.relay.Relayed(); received > maxPushes*pieceSize { // the first pieces of those on their way when its first CANCEL comes
			t.Errorf("%d bytes were sent in vain", received)
		}
	})
}

// A follower that does not say what it wants of what is announced, and is not heard
// in any other way, does not hold blocks for ever.
func TestFollowerThatIsSilentIsLeft(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		t := w.t
		a, b := w.start("a", 0), w.start("b", 0)
		w.chain(a, b)
		b.mustRead(0)
		var made *conn
		a.relay.mu.Lock()
		for c := range a.relay.conns {
			made = c
		}
		a.relay.mu.Unlock()
		began := time.Now()
		made.waitSeen(made.ctx, &sending{seen: make(chan struct{}, 1)})
		if d := time.Since(began); made.ctx.Err() == nil || d != writeTimeout {
			t.Errorf("after %v: %v", d, made.ctx.Err())
		}
	})
}
