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
