package sim

import (
	"context"
	"sync"
	"time"

	"github.com/faasnet/faasnet/fs/block"
)

// asked is one time that a VM asked the registry for a block.
type asked struct {
	vm  string
	ref block.Ref
	at  time.Duration
}

// ledger is what the registry was asked for.
type ledger struct {
	mu  sync.Mutex
	all []asked
}

func (l *ledger) note(a asked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, a)
}

// since returns what was asked from then on.
func (l *ledger) since(then time.Duration) (out []asked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.all {
		if a.at >= then {
			out = append(out, a)
		}
	}
	return out
}

// most returns how often the block asked for most often was asked for, and how
// often all blocks were beyond once.
func most(all []asked) (most, again int) {
	n := map[block.Sum]int{}
	for _, a := range all {
		n[a.ref.Sum]++
		most = max(most, n[a.ref.Sum])
		if n[a.ref.Sum] > 1 {
			again++
		}
	}
	return most, again
}

// origin is the registry as one VM sees it.
type origin struct {
	v    *vm
	blob block.Streamer
}

// ReadBlock is that of block.Source.
func (o origin) ReadBlock(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
	o.note(ref)
	return o.blob.ReadBlock(ctx, ref, dst)
}

// StreamBlock is that of block.Streamer.
func (o origin) StreamBlock(ctx context.Context, ref block.Ref, dst []byte, arrived func(int)) ([]byte, error) {
	o.note(ref)
	return o.blob.StreamBlock(ctx, ref, dst, arrived)
}

func (o origin) note(ref block.Ref) {
	if !o.v.dead.Load() {
		o.v.w.asked.note(asked{o.v.name, ref, o.v.w.now()})
	}
}
