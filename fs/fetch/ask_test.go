package fetch

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
	"github.com/faasnet/faasnet/fs/store"
)

// peers is a fixed Upstreams that remembers whom it was told of.
type peers struct {
	sources []block.Source
	mu      sync.Mutex
	blamed  []block.Source
}

func (p *peers) Sources(block.Ref) []block.Source { return p.sources }

func (p *peers) Blame(_ block.Ref, src block.Source, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.blamed = append(p.blamed, src)
}

// RA-11: bytes that are not the block are neither cached nor given to anybody,
// and the block is asked for anew.
func TestRA11_BadBytesAreNeverCached(t *testing.T) {
	inBubble(t, func(t *testing.T, w way) {
		t.Helper()
		of := blocktest.NewLayer(1, blockSize, 2*blockSize)
		for name, src := range map[string]block.Source{
			"cut":     blocktest.Truncate(of.Source(), 1, 100),
			"flipped": blocktest.Flip(of.Source(), 1),
		} {
			s := newStore(t, store.Options{})
			origin := blocktest.Count(src)
			f := newFetcher(t, s, origin, Options{})
			l := openLayer(t, f, of)
			if err := w.read(t.Context(), f, l, of, 1); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if n := origin.Calls(); n != 2 {
				t.Errorf("%s: %d requests, want 2", name, n)
			}
			if n := f.metrics.badBytes[fromOrigin].Load(); n != 1 {
				t.Errorf("%s: %d bad blocks counted", name, n)
			}
		}
		s := newStore(t, store.Options{})
		f := newFetcher(t, s, blocktest.Flip(of.Source(), -1), Options{})
		l := openLayer(t, f, of)
		if err := w.read(t.Context(), f, l, of, 1); !errdefs.IsDataLoss(err) {
			t.Errorf("only bad bytes: %v", err)
		}
		if u := s.Usage(); u.Blocks != 0 || u.FlatBytes != 0 {
			t.Errorf("bad bytes are cached: %+v", u)
		}
	})
}

// A peer that gives bad bytes is blamed and another source is asked.
func TestBadPeerIsBlamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := blocktest.NewLayer(1, blockSize, blockSize)
		bad := blocktest.Count(blocktest.Flip(of.Source(), -1))
		up := &peers{sources: []block.Source{bad}}
		origin := blocktest.Count(of.Source())
		f := newFetcher(t, newStore(t, store.Options{}), origin, Options{Upstreams: up})
		if p, err := f.ReadBlock(t.Context(), of.Ref(0), nil); err != nil || !bytes.Equal(p, of.Frame(0)) {
			t.Error("wrong bytes or", err)
		}
		if len(up.blamed) != 1 || up.blamed[0] != block.Source(bad) || origin.Calls() != 1 {
			t.Errorf("blamed %v, origin asked %d times", up.blamed, origin.Calls())
		}
	})
}

// A source that is late is hedged; the first answer wins and the loser is
// cancelled.
func TestHedge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := blocktest.NewLayer(1, blockSize, 50*blockSize)
		slow := blocktest.Count(blocktest.Hang())
		quick := blocktest.Count(blocktest.Delay(of.Source(), 20*time.Millisecond))
		up := &peers{sources: []block.Source{quick}}
		origin := blocktest.Count(blocktest.Delay(of.Source(), 100*time.Millisecond))
		f := newFetcher(t, newStore(t, store.Options{}), origin, Options{Upstreams: up})
		read := func(i int) time.Duration {
			t.Helper()
			began := time.Now()
			if _, err := f.ReadBlock(t.Context(), of.Ref(i), nil); err != nil {
				t.Fatal(err)
			}
			return time.Since(began)
		}
		up.sources = []block.Source{slow}
		if d := read(0); d != maxHedge/2+100*time.Millisecond {
			t.Errorf("before anything is measured: %v", d)
		}
		up.sources = []block.Source{quick}
		for i := 1; i < 40; i++ {
			read(i)
		}
		if n := origin.Calls(); n != 1 {
			t.Errorf("the origin is asked %d times while the peer is quick", n)
		}
		up.sources = []block.Source{slow}
		if d := read(40); d != minHedge+100*time.Millisecond {
			t.Errorf("hedge after a quick past: answer after %v", d)
		}
		up.sources = []block.Source{slow, slow, quick}
		if d := read(41); d != 2*minHedge+20*time.Millisecond {
			t.Errorf("third peer: answer after %v", d)
		}
		synctest.Wait()
		if now, _ := slow.Live(); now != 0 {
			t.Errorf("%d losers go on", now)
		}
		if n := f.metrics.hedges.Load(); n != 4 {
			t.Errorf("%d hedges counted, want 4", n)
		}
	})
}

// A request to the origin that gets no answer at all is made once more, while
// there is time for the answer.
func TestOriginThatForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := blocktest.NewLayer(1, blockSize, blockSize)
		var asked atomic.Int64
		origin := blocktest.Count(block.SourceFunc(func(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
			if asked.Add(1) == 1 {
				return blocktest.Hang().ReadBlock(ctx, ref, dst)
			}
			return of.Source().ReadBlock(ctx, ref, dst)
		}))
		f := newFetcher(t, newStore(t, store.Options{}), origin, Options{})
		began := time.Now()
		if _, err := f.ReadBlock(t.Context(), of.Ref(0), nil); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d != DefaultDeadline/2 || origin.Calls() != 2 {
			t.Errorf("answer after %v and %d requests", d, origin.Calls())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		of := blocktest.NewLayer(1, blockSize, blockSize)
		origin := blocktest.Count(blocktest.Hang())
		f := newFetcher(t, newStore(t, store.Options{}), origin, Options{})
		if _, err := f.ReadBlock(WithPriority(t.Context(), Fill), of.Ref(0), nil); err == nil || origin.Calls() != 2 {
			t.Errorf("%d requests in vain, want 2: %v", origin.Calls(), err)
		}
	})
}

func TestSourcesThatFail(t *testing.T) {
	of := blocktest.NewLayer(1, blockSize, blockSize)
	gone := errors.New("connection reset")
	for name, c := range map[string]struct {
		peers  []block.Source
		origin block.Source
		want   error // nil: success
		asked  int   // times the origin is
		within time.Duration
	}{
		"peer fails":       {[]block.Source{blocktest.Fail(of.Source(), -1, gone)}, of.Source(), nil, 1, 0},
		"peer without it":  {[]block.Source{&blocktest.Memory{}}, of.Source(), nil, 1, 0},
		"origin recovers":  {nil, blocktest.Fail(of.Source(), 2, gone), nil, 3, time.Second},
		"origin fails":     {nil, blocktest.Fail(of.Source(), -1, gone), gone, originAttempts, time.Second},
		"origin: 404":      {nil, &blocktest.Memory{}, errdefs.ErrNotFound, 1, 0},
		"origin: 403":      {nil, blocktest.Fail(of.Source(), -1, errdefs.ErrPermissionDenied), errdefs.ErrPermissionDenied, 1, 0},
		"404, peer has it": {[]block.Source{blocktest.Delay(of.Source(), 2*time.Second)}, &blocktest.Memory{}, nil, 1, 2 * time.Second},
		"nobody":           {[]block.Source{&blocktest.Memory{}}, nil, errdefs.ErrNotFound, 0, 0},
		"nobody at all":    {nil, nil, errdefs.ErrUnavailable, 0, 0},
		"peer hangs":       {[]block.Source{blocktest.Hang()}, blocktest.Fail(of.Source(), -1, gone), gone, originAttempts, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var origin *blocktest.Counter
				var src block.Source
				if c.origin != nil {
					origin = blocktest.Count(c.origin)
					src = origin
				}
				f := newFetcher(t, newStore(t, store.Options{}), src, Options{Upstreams: &peers{sources: c.peers}})
				began := time.Now()
				_, err := f.ReadBlock(t.Context(), of.Ref(0), nil)
				if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
					t.Errorf("error %v, want %v", err, c.want)
				}
				if d := time.Since(began); d > c.within {
					t.Errorf("answer after %v, want %v", d, c.within)
				}
				if origin != nil && origin.Calls() != c.asked {
					t.Errorf("origin asked %d times, want %d", origin.Calls(), c.asked)
				}
			})
		})
	}
}

func TestTooManyBytes(t *testing.T) {
	of := blocktest.NewLayer(1, blockSize, blockSize)
	more := block.SourceFunc(func(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
		p, err := of.Source().ReadBlock(ctx, ref, dst)
		return append(p, make([]byte, 100<<10)...), err
	})
	f := newFetcher(t, newStore(t, store.Options{}), more, Options{})
	if _, err := f.ReadBlock(t.Context(), of.Ref(0), nil); !errdefs.IsDataLoss(err) {
		t.Error(err)
	}
}

// A peer that breaks off a block in its midst is asked once more: it gets the
// block from elsewhere. The origin is asked when it breaks off again.
func TestPeerThatBreaksOffIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := blocktest.NewLayer(1, blockSize, blockSize)
		for aborts, want := range map[int]int{1: 0, 2: 1} {
			asked := 0
			peer := block.SourceFunc(func(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
				if asked++; asked <= aborts {
					return dst, errdefs.ErrAborted
				}
				return of.Source().ReadBlock(ctx, ref, dst)
			})
			origin := blocktest.Count(of.Source())
			f := newFetcher(t, newStore(t, store.Options{}), origin, Options{Upstreams: &peers{sources: []block.Source{peer}}})
			if p, err := f.ReadBlock(t.Context(), of.Ref(0), nil); err != nil || !bytes.Equal(p, of.Frame(0)) {
				t.Error("wrong bytes or", err)
			}
			if n := origin.Calls(); n != want || asked != 2 {
				t.Errorf("after %d aborts: peer asked %d times, origin %d", aborts, asked, n)
			}
		}
	})
}
