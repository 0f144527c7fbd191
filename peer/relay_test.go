package peer

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
)

const mbit = 1_000_000 / 8 // bytes a second

// A chain of VMs reads each block from the registry once, whoever wants it.
func TestOneReadsAllGet(t *testing.T) {
	inWorld(t, 8, func(w *world) {
		t := w.t
		a, b, c := w.start("a", 0), w.start("b", 0), w.start("c", 0)
		w.chain(a, b, c)
		c.mustRead(0, 1, 2) // through b and a
		b.mustRead(3)
		a.mustRead(4, 5)
		time.Sleep(50 * time.Millisecond)
		c.mustRead(0, 1, 2, 3, 4, 5)
		b.mustRead(0, 1, 2, 3, 4, 5)
		a.mustRead(0, 1, 2, 3, 4, 5)
		if n := w.origin.Calls(); n != 6 {
			t.Errorf("the registry was asked %d times for 6 blocks", n)
		}
	})
}

// A follower gets a block it did not ask for within one block time plus one hop
// of its parent's receiving it, and so does the next one.
func TestPushIsCutThrough(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		t := w.t
		const rate = 10 * mbit
		slow := blocktest.Stream(w.layer.Source(), 16<<10, time.Duration(16<<10)*time.Second/rate)
		w.from = func(string) block.Source { return slow }
		a, b, c := w.start("a", rate), w.start("b", rate), w.start("c", rate)
		w.chain(a, b, c)
		began := time.Now()
		a.mustRead(0)
		atA := time.Since(began)
		for !b.has(0) {
			time.Sleep(time.Millisecond)
		}
		atB := time.Since(began)
		for !c.has(0) {
			time.Sleep(time.Millisecond)
		}
		atC := time.Since(began)
		blockTime := time.Duration(w.layer.Ref(0).Size) * time.Second / rate
		hop := w.net.Latency + 5*time.Millisecond
		t.Logf("block time %v: at a after %v, at b %v later, at c %v later", blockTime, atA, atB-atA, atC-atB)
		if d := atB - atA; d > blockTime+hop {
			t.Errorf("a's follower has it %v later, want %v", d, blockTime+hop)
		}
		// Cut-through: three hops take much less than three blocks.
		if atC > blockTime*2 {
			t.Errorf("at c after %v, want less than two block times of %v", atC, blockTime)
		}
		synctest.Wait()
	})
}
