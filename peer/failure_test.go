package peer

import (
	"context"
	"crypto/ed25519"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
)

// PN-01: an inner VM is killed while its children stream.
func TestPN01_UpstreamIsGone(t *testing.T) {
	inWorldOf(t, 64, small, func(w *world) {
		t := w.t
		vms := w.binary(7, 12*mbit)
		dead := vms[1]
		time.AfterFunc(200*time.Millisecond, dead.kill)
		rest := slices.Delete(slices.Clone(vms), 1, 2)
		var mu sync.Mutex
		var longest time.Duration
		w.all(rest, func(v *vm) error {
			for i := range w.layer.Table.Len() {
				began := time.Now()
				if err := v.read(i); err != nil {
					return err
				}
				mu.Lock()
				longest = max(longest, time.Since(began))
				mu.Unlock()
			}
			return nil
		})
		if longest > 2*time.Second {
			t.Errorf("a block took %v", longest)
		}
		most, total := w.asked()
		t.Logf("slowest block %v, registry asked %d times for 64 blocks, %d at most for one", longest, total, most)
		if most > 2 {
			t.Errorf("the registry was asked %d times for one block, with one VM dead", most)
		}
		for _, v := range []*vm{vms[3], vms[4]} {
			if !slices.Contains(v.reported(Unreachable), dead.name) {
				t.Errorf("%s has not reported %s: %v", v.name, dead.name, v.reports)
			}
		}
	})
}

// PN-02: an upstream that accepts connections and says nothing, and one behind a
// firewall that drops everything.
func TestPN02_UpstreamIsSilent(t *testing.T) {
	for name, stop := range map[string]func(*vm, bool){
		"stopped": func(v *vm, b bool) { v.host.Freeze(b) },
		"cut off": func(v *vm, b bool) { v.host.Cut(b) },
	} {
		for when, after := range map[string]time.Duration{"before": 0, "in the middle": 150 * time.Millisecond} {
			t.Run(name+" "+when, func(t *testing.T) {
				inWorld(t, 32, func(w *world) {
					t := w.t
					a, b := w.start("a", 100*mbit), w.start("b", 100*mbit)
					w.chain(a, b)
					time.AfterFunc(after, func() { stop(a, true) })
					if after == 0 {
						time.Sleep(time.Millisecond)
					}
					var longest time.Duration
					for i := range w.layer.Table.Len() {
						began := time.Now()
						b.mustRead(i)
						longest = max(longest, time.Since(began))
					}
					t.Logf("slowest block %v", longest)
					if longest > 2*time.Second {
						t.Errorf("a block took %v", longest)
					}
					time.Sleep(2 * time.Second)
					if len(b.reported(Silent))+len(b.reported(Unreachable)) == 0 || len(b.reported(Corrupt)) != 0 {
						t.Errorf("silent are %v, unreachable %v, corrupt %v", b.reported(Silent), b.reported(Unreachable), b.reported(Corrupt))
					}
					stop(a, false)
					time.Sleep(10 * time.Second)
					w.holdsOnlyRight(b)
					if a.relay.Children() != 1 {
						t.Error("b does not follow a again")
					}
				})
			})
		}
	}
}

// PN-02: who gives up a block of which a piece is on its way waits for no longer than
// the other side may be silent.
func TestPN02_GivenUpInTheMiddleOfAPiece(t *testing.T) {
	for name, stop := range map[string]func(*vm, bool){
		"stopped": func(v *vm, b bool) { v.host.Freeze(b) },
		"cut off": func(v *vm, b bool) { v.host.Cut(b) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				t := w.t
				a := w.start("a", blockSize) // its link carries a block a second
				a.mustRead(0)
				w.from = func(string) block.Source { return hangs }
				b := w.start("b", 100*mbit)
				w.chain(a, b)
				ctx, cancel := context.WithCancel(t.Context())
				var reading sync.WaitGroup
				reading.Go(func() {
					if _, err := b.fetcher.ReadBlock(ctx, w.layer.Ref(0), nil); ctx.Err() == nil {
						t.Errorf("read before it was given up: %v", err)
					}
				})
				time.Sleep(500 * time.Millisecond)
				b.below(2, nil) // it follows a no more: nothing but the piece is expected
				time.Sleep(10 * time.Millisecond)
				stop(a, true)
				cancel()
				reading.Wait()
				began := time.Now()
				if err := b.fetcher.Close(); err != nil {
					t.Error(err)
				}
				if d := time.Since(began); d > 3*DefaultSilence/2 {
					t.Errorf("its flight ends after %v", d)
				}
				stop(a, false)
			})
		})
	}
}

// PN-02: a VM that sends a piece byte by byte does not keep who gives it up.
func TestPN02_PieceThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		r, err := New(Options{VM: "me", Catalog: NewCatalog(), Identity: func() (string, []ed25519.PublicKey) { return tenant, nil }})
		if err != nil {
			t.Fatal(err)
		}
		r.ctx = t.Context()
		c := newConn(r, ours, "slow", true)
		var work sync.WaitGroup
		defer work.Wait()
		defer theirs.Close()
		work.Go(func() { _ = c.run() })
		work.Go(func() { _, _ = io.Copy(io.Discard, theirs) })
		k := newCall(block.Ref{Size: blockSize}, make([]byte, blockSize))
		tag := c.begin(k, frameGet, 0, nil)
		if _, err := theirs.Write(header{frameData, 0, tag, pieceSize}.append(nil)); err != nil {
			t.Fatal(err)
		}
		work.Go(func() {
			for err := error(nil); err == nil; _, err = theirs.Write([]byte{0}) {
				time.Sleep(DefaultSilence / 2)
			}
		})
		time.Sleep(time.Minute)
		if c.ctx.Err() != nil {
			t.Fatal("the connection has ended before", context.Cause(c.ctx))
		}
		began := time.Now()
		c.giveUp(tag, k)
		if d := time.Since(began); d != pieceTimeout {
			t.Errorf("given up after %v", d)
		}
	})
}

// hangs is a source that never answers.
var hangs = block.SourceFunc(func(ctx context.Context, _ block.Ref, dst []byte) ([]byte, error) {
	<-ctx.Done()
	return dst, ctx.Err()
})

// holdsOnlyRight checks every block in the store of v.
func (w *world) holdsOnlyRight(v *vm) {
	w.t.Helper()
	w.layer.Each(func(ref block.Ref, _ []byte) {
		if p, err := v.store.ReadBlock(w.t.Context(), ref, nil); err == nil {
			if err := ref.Verify(p); err != nil {
				w.t.Errorf("%s stores: %v", v.name, err)
			}
		}
	})
}

// PN-03: a VM that flips a bit in all that it relays. Its children find out
// before they store; what they relayed meanwhile ends in an abort, which blames
// nobody but the liar.
func TestPN03_CorruptingPeer(t *testing.T) {
	inWorld(t, 24, func(w *world) {
		t := w.t
		a := w.start("a", 100*mbit)
		w.wrap = func(b Blocks) Blocks { return lies{b} }
		liar := w.start("liar", 100*mbit)
		w.wrap = nil
		c, d := w.start("c", 100*mbit), w.start("d", 100*mbit)
		w.chain(a, liar, c, d)
		read := func(first, last int) {
			for i := first; i < last; i++ {
				d.mustRead(i)
				c.mustRead(i)
			}
		}
		read(0, 8)
		began := time.Now()
		for _, v := range []*vm{a, c, d} {
			w.holdsOnlyRight(v)
		}
		if got := c.reported(Corrupt); !slices.Equal(got, []string{"liar"}) {
			t.Errorf("c reported %v", c.reports)
		}
		if got := d.reported(Corrupt); slices.Contains(got, "c") {
			t.Errorf("d blames %v", got)
		}
		// For 30 s it is not asked.
		before := liar.relay.metrics.gets.Load()
		for i := 8; i < 16; i++ {
			time.Sleep(3 * time.Second)
			read(i, i+1)
		}
		if n := liar.relay.metrics.gets.Load(); n != before || time.Since(began) > corruptFor {
			t.Errorf("asked %d times within %v of giving bad bytes", n-before, time.Since(began))
		}
		most, _ := w.asked()
		if most > 1 {
			t.Errorf("the registry was asked %d times for one block, though a has it", most)
		}
	})
}

// PN-05: the path through the upstream is slower than the registry.
func TestPN05_SlowUpstream(t *testing.T) {
	var alone, slow time.Duration
	for _, tree := range []bool{false, true} {
		inWorldOf(t, 512, small, func(w *world) { // 8 MiB
			t := w.t
			const rate = 12 * mbit
			a := w.start("a", 0)
			a.mustReadAll()
			registry := blocktest.Delay(w.layer.Source(), time.Duration(small)*time.Second*4/rate)
			w.from = func(string) block.Source { return registry }
			b := w.start("b", 0)
			began := time.Now()
			if !tree {
				b.mustReadAll()
				alone = time.Since(began)
				return
			}
			a.host.SetRate(rate / 100)
			b.below(1, []*vm{a})
			b.mustReadAll()
			slow = time.Since(began)
			if !slices.Contains(b.reported(Slow), "a") {
				t.Errorf("reported %v", b.reports)
			}
		})
	}
	t.Logf("registry only %v, through a slow upstream %v", alone, slow)
	if slow > 2*alone {
		t.Errorf("%v through a slow upstream, %v from the registry", slow, alone)
	}
}

// PN-06: a child asks before its parent has anything. It waits and streams.
func TestPN06_NotYetIsNotNotFound(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		t := w.t
		gate := blocktest.NewGate(w.origin)
		w.from = func(string) block.Source { return gate }
		a, b, c := w.start("a", 100*mbit), w.start("b", 100*mbit), w.start("c", 100*mbit)
		w.chain(a, b, c)
		done := make(chan error, 1)
		go func() { done <- c.read(0) }()
		<-gate.Entered() // a asks the registry for it
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		if a, b := a.relay.metrics.gets.Load(), b.relay.metrics.gets.Load(); a != 1 || b != 1 {
			t.Errorf("%d and %d requests while waiting, want one each", a, b)
		}
		began := time.Now()
		gate.Pass()
		if err := <-done; err != nil {
			t.Error(err)
		}
		blockTime := time.Duration(blockSize) * time.Second / (100 * mbit)
		if d := time.Since(began); d > 2*blockTime+10*w.net.Latency {
			t.Errorf("at the end of the chain after %v, a block takes %v", d, blockTime)
		}
		if n := w.origin.Calls(); n != 1 {
			t.Errorf("%d requests to the registry", n)
		}
	})
}

// PN-09: the parent has evicted what the child asks for.
func TestPN09_EvictedBlocks(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		t := w.t
		a, b := w.start("a", 100*mbit), w.start("b", 100*mbit)
		a.mustRead(0, 1, 2, 3)
		w.chain(a, b)
		if err := a.store.Retain(func(blob) bool { return false }); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		b.mustRead(0, 1)
		if d := time.Since(began); d > time.Second {
			t.Errorf("after %v", d)
		}
		if !a.has(0) {
			t.Error("a has not got it again for its child")
		}
		// What is stored only is answered at once.
		a.store.Retain(func(blob) bool { return false })
		c, err := b.neighbourOf(a).connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		err = c.get(context.Background(), c.open(function, b.token()), w.layer.Ref(2), make([]byte, w.layer.Ref(2).Size), flagStored, func(int) {})
		if d := time.Since(began); d > 10*w.net.Latency || !isNotFound(err) {
			t.Errorf("answer after %v: %v", d, err)
		}
	})
}

// PN-07: the upstream's connection is reset in the middle of a block. The child,
// and the child's child that has the first part already, go on with another
// source; nobody but the upstream is blamed.
func TestPN07_ResetInTheMiddle(t *testing.T) {
	inWorldOf(t, 2, 512<<10, func(w *world) {
		t := w.t
		const rate = 10 * mbit // a block takes 0.4 s
		a := w.start("a", rate)
		a.mustRead(0, 1)
		b, c := w.start("b", rate), w.start("c", rate)
		w.chain(a, b, c)
		time.AfterFunc(250*time.Millisecond, a.kill)
		done := make(chan error, 1)
		go func() { done <- c.read(0) }()
		b.mustRead(0)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, in := b.relay.Relayed(); in < 200<<10 || in >= 512<<10 {
			t.Errorf("%d bytes had come when the connection was reset", in)
		}
		w.holdsOnlyRight(b)
		w.holdsOnlyRight(c)
		if got := slices.Compact(b.reported(Unreachable)); !slices.Equal(got, []string{"a"}) {
			t.Errorf("b reported %v", b.reports)
		}
		for _, r := range c.reports {
			if r.VM == "b" {
				t.Errorf("c blames b: %v", r)
			}
		}
	})
}
