package fetch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
	"github.com/faasnet/faasnet/fs/store"
)

// judge is an Upstreams that is told who was late.
type judge struct {
	peers
	late []block.Source
}

func (j *judge) Late(_ block.Ref, src block.Source) { j.late = append(j.late, src) }

// waits is a Streamer that says now and then that it waits, and has the block
// after so long.
type waits struct {
	block.Source
	after time.Duration
}

func (w waits) StreamBlock(ctx context.Context, ref block.Ref, dst []byte, arrived func(int)) ([]byte, error) {
	for began := time.Now(); time.Since(began) < w.after; {
		select {
		case <-time.After(100 * time.Millisecond):
			arrived(0)
		case <-ctx.Done():
			return dst, ctx.Err()
		}
	}
	return w.ReadBlock(ctx, ref, dst)
}

// Whom not to hedge: a peer that is on its way or says that it waits. The origin
// is asked after a third of the deadline whatever a peer says, if anybody waits.
func TestWhoIsLate(t *testing.T) {
	of := blocktest.Cut(blocktest.Random(1, blockSize), blockSize)
	third := DefaultDeadline / 3
	for name, c := range map[string]struct {
		peer   block.Source
		prio   Priority
		atMost time.Duration
		origin int
		late   string
	}{
		"at a good pace": {blocktest.Stream(of.Source(), 100, 40*time.Millisecond), OnDemand, 42 * 40 * time.Millisecond, 0, "no"},
		"at a bad pace":  {blocktest.Stream(of.Source(), 100, 490*time.Millisecond), OnDemand, 2 * time.Second, 1, "yes"},
		"waits":          {waits{of.Source(), 2 * time.Second}, OnDemand, 2 * time.Second, 0, "no"},
		"waits for ever": {waits{of.Source(), time.Hour}, OnDemand, third, 1, "maybe"}, // its own time ends then, too
		"silent":         {waits{blocktest.Hang(), 0}, OnDemand, time.Second, 1, "yes"},
		"nobody waits":   {waits{of.Source(), third + time.Second}, Fill, third + time.Second, 0, "no"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := &judge{peers: peers{sources: []block.Source{c.peer}}}
				origin := blocktest.Count(of.Source())
				f := newFetcher(t, newStore(t, store.Options{}), origin, Options{Upstreams: up})
				began := time.Now()
				if _, err := f.ReadBlock(WithPriority(t.Context(), c.prio), of.Ref(0), nil); err != nil {
					t.Fatal(err)
				}
				if d := time.Since(began); d > c.atMost || origin.Calls() != c.origin {
					t.Errorf("took %v and %d requests to the origin, want %v and %d", d, origin.Calls(), c.atMost, c.origin)
				}
				if late := len(up.late) == 1; c.late == "yes" && !late || c.late == "no" && len(up.late) > 0 {
					t.Errorf("late are %v", up.late)
				}
			})
		})
	}
}
