package sim

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/fetch"
	"github.com/faasnet/faasnet/peer"
	"github.com/faasnet/faasnet/treeclient"
)

// A fleet whose VMs believe their peers, and one whose VMs do not act on new
// places, must not pass: else the judges see nothing. Both pass as they are.

// liarPlan is a fleet with a liar at its root.
func liarPlan() *plan {
	p := calm(8, tree.Complete)
	p.liars[0] = true
	p.events[0].at = 0
	for i := range p.events[1:] {
		p.events[1+i].at = 100 * time.Millisecond // so that VM 0 is the root
	}
	return p
}

// deathPlan is a fleet whose root is killed, and whoever takes its place.
func deathPlan() *plan {
	p := calm(12, tree.Complete)
	p.events = append(p.events, event{at: 300 * time.Millisecond, vm: 0, what: kill}, event{at: 600 * time.Millisecond, vm: 11, what: kill})
	for i := range p.events[1:12] {
		p.events[1+i].at = time.Duration(i+1) * 5 * time.Millisecond // in the order of their numbers
	}
	return p
}

// calm is a plan in which nothing goes wrong.
func calm(vms int, form tree.Form) *plan {
	p := newPlan(1, vms)
	p.fleet.form, p.events, p.liars = form, nil, map[int]bool{}
	for i := range vms {
		p.events = append(p.events, event{vm: i, what: join})
	}
	return p
}

func TestBelievingPeersIsSeen(t *testing.T) {
	p := liarPlan()
	if r := p.run(t, hooks{}); len(r.errs) > 0 {
		t.Fatalf("%v%v", p, errors.Join(r.errs...))
	}
	m := p.fleet.images[0]
	right := map[block.Sum][]byte{m.ref.Sum: m.section}
	for _, l := range m.layers {
		l.Each(func(ref block.Ref, frame []byte) { right[ref.Sum] = frame })
	}
	r := p.run(t, hooks{
		asks:  func(_ *vm, r *peer.Relay) fetch.Upstreams { return believing{r, right} },
		gives: func(_ *vm, b peer.Blocks) peer.Blocks { return whole{b} },
	})
	if !errors.Is(errors.Join(r.errs...), errWrong) {
		t.Errorf("VMs believe what a liar gives them, and nobody has seen wrong bytes: %v", r.errs)
	}
}

func TestStayingBelowTheDeadIsSeen(t *testing.T) {
	p := deathPlan()
	if r := p.run(t, hooks{}); len(r.errs) > 0 {
		t.Fatalf("%v%v", p, errors.Join(r.errs...))
	}
	var mu sync.Mutex
	placed := map[*vm]bool{}
	r := p.run(t, hooks{moves: func(v *vm, _ treeclient.Place) bool {
		mu.Lock()
		defer mu.Unlock()
		first := !placed[v]
		placed[v] = true
		return first
	}})
	if len(r.errs) == 0 {
		t.Error("VMs keep their first places whatever happens, and nothing is wrong")
	}
	t.Log(errors.Join(r.errs...))
}

// believing makes verification blind: while a block is hashed it is what it should
// be, and then again what the peer has given.
type believing struct {
	*peer.Relay
	right map[block.Sum][]byte
}

// Sources is that of fetch.Upstreams.
func (b believing) Sources(ref block.Ref) (out []block.Source) {
	for _, s := range b.Relay.Sources(ref) {
		out = append(out, believed{s, b.right[ref.Sum]})
	}
	return out
}

type believed struct {
	block.Source
	right []byte
}

// StreamBlock is that of block.Streamer, but for what it is told to break.
func (b believed) StreamBlock(ctx context.Context, ref block.Ref, dst []byte, arrived func(int)) ([]byte, error) {
	got, err := b.ReadBlock(ctx, ref, nil)
	if err != nil {
		return dst, err
	}
	out := append(dst, b.right...)
	arrived(len(b.right)) // is hashed
	copy(out[len(dst):], got)
	return out, nil
}

// whole gives blocks when they are complete and takes none unasked, so that
// nobody sees a block while it is hashed.
type whole struct{ peer.Blocks }

// Watch is that of peer.Blocks.
func (whole) Watch(block.Ref) (block.Tap, error) { return nil, errdefs.ErrNotFound }

// Offer is that of peer.Blocks.
func (whole) Offer(context.Context, block.Ref, block.Sender) (block.Sink, error) {
	return nil, errdefs.ErrAlreadyExists
}

// Tap is that of peer.Blocks.
func (w whole) Tap(ctx context.Context, ref block.Ref) (block.Tap, error) {
	p, err := w.Blocks.(*fetch.Fetcher).ReadBlock(fetch.WithPriority(ctx, fetch.Relay), ref, nil)
	if err != nil {
		return nil, err
	}
	return &piece{p}, nil
}

// Open is that of peer.Blocks: it gives what the VM has, right or wrong.
func (w whole) Open(ctx context.Context, ref block.Ref) (*os.File, error) {
	return w.Blocks.Open(ctx, ref)
}

type piece struct{ p []byte }

// Next is that of block.Tap.
func (t *piece) Next(context.Context) ([]byte, error) {
	if t.p == nil {
		return nil, io.EOF
	}
	p := t.p
	t.p = nil
	return p, nil
}

// Close is that of block.Tap.
func (t *piece) Close() {}
