package peer

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/fetch"
)

// reading reads block i of v in the background with a priority, and returns how
// long that took.
func (v *vm) reading(i int, p fetch.Priority) func() time.Duration {
	began, done := time.Now(), make(chan time.Duration, 1)
	go func() {
		_, err := v.fetcher.ReadBlock(fetch.WithPriority(v.w.t.Context(), p), v.w.layer.Ref(i), nil)
		if err != nil {
			v.w.t.Error(err)
		}
		done <- time.Since(began)
	}()
	return func() time.Duration { return <-done }
}

// What a child's container waits for goes before what the child fetches ahead,
// whether its upstream has stored the block or gets it.
func TestWhatSomebodyWaitsForGoesFirst(t *testing.T) {
	for _, stored := range []bool{true, false} {
		inWorld(t, 12, func(w *world) {
			t := w.t
			const rate = 10 * mbit // a block takes 105 ms
			parent, child := w.start("parent", rate), w.start("child", rate)
			child.below(1, []*vm{parent})
			if stored {
				parent.mustReadAll()
			}
			var g errgroup.Group
			for i := range 7 {
				wait := child.reading(i, fetch.Order)
				g.Go(func() error { wait(); return nil })
			}
			time.Sleep(10 * time.Millisecond)
			urgent := child.reading(8, fetch.OnDemand)()
			if err := g.Wait(); err != nil {
				t.Error(err)
			}
			// All eight take 840 ms. A few pieces of others may be on their way.
			if limit := 550 * time.Millisecond; urgent > limit {
				t.Errorf("stored %t: a read beside seven that nobody waits for took %v, limit %v", stored, urgent, limit)
			}
		})
	}
}

// wishes tells how urgently each block is asked for.
type wishes struct {
	Blocks
	seen chan *block.Wish
}

func (b wishes) Tap(ctx context.Context, ref block.Ref) (block.Tap, error) {
	b.seen <- block.WishOf(ctx)
	return b.Blocks.Tap(ctx, ref)
}

// The upstream learns how urgent a block is, also when that changes.
func TestUpstreamLearnsUrgency(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		t := w.t
		seen := make(chan *block.Wish, 4)
		w.registry(mbit) // a block takes a second, so that they wait
		w.wrap = func(b Blocks) Blocks { return wishes{b, seen} }
		parent := w.start("parent", 0)
		w.wrap = nil
		child := w.start("child", 0)
		child.below(1, []*vm{parent})
		time.Sleep(time.Second)
		expect := func(wish *block.Wish, want block.Urgency) {
			t.Helper()
			if u, _ := wish.Urgency(); u != want {
				t.Errorf("the upstream sees %d, want %d", u, want)
			}
		}
		for i, c := range []struct {
			asked fetch.Priority
			want  block.Urgency
		}{{fetch.OnDemand, block.Now}, {fetch.Order, block.Soon}, {fetch.Fill, block.Later}} {
			wait := child.reading(i, c.asked)
			expect(<-seen, c.want)
			wait()
		}
		fill := child.reading(3, fetch.Fill)
		wish := <-seen
		expect(wish, block.Later)
		order := child.reading(3, fetch.Order)
		time.Sleep(10 * time.Millisecond)
		expect(wish, block.Soon)
		container := child.reading(3, fetch.OnDemand)
		time.Sleep(10 * time.Millisecond)
		expect(wish, block.Now)
		fill()
		order()
		container()
	})
}
