package peer

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
	"github.com/faasnet/faasnet/fs/fetch"
	"github.com/faasnet/faasnet/fs/store"
	"github.com/faasnet/faasnet/peer/identity"
	"github.com/faasnet/faasnet/peer/peertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	blockSize = 128 << 10
	function  = "sha256:f"
	tenant    = "acme"
)

// world is a network of VMs with one registry, in virtual time.
type world struct {
	t      *testing.T
	net    peertest.Net
	key    ed25519.PrivateKey
	layer  *blocktest.Layer
	origin *blocktest.Counter
	from   func(vm string) block.Source // the registry as a VM sees it
	wrap   func(Blocks) Blocks          // what the next VMs give to others
}

// inWorld runs a test with an image of that many incompressible blocks.
func inWorld(t *testing.T, blocks int, test func(*world)) {
	t.Helper()
	inWorldOf(t, blocks, blockSize, test)
}

func inWorldOf(t *testing.T, blocks, size int, test func(*world)) {
	t.Helper()
	layer := blocktest.Cut(blocktest.Random(1, blocks*size), size)
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, layer: layer, key: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))}
		w.net.Latency = time.Millisecond
		w.origin = blocktest.Count(layer.Source())
		w.from = func(string) block.Source { return w.origin }
		test(w)
	})
}

// vm is one VM: store, fetcher and relay.
type vm struct {
	w       *world
	name    string
	host    *peertest.Host
	store   *store.Store
	fetcher *fetch.Fetcher
	catalog *Catalog
	relay   *Relay
	stop    context.CancelFunc
	done    chan error
	dead    atomic.Bool

	mu      sync.Mutex
	reports []Report
}

// start adds a VM whose link has the given rate, in bytes a second.
func (w *world) start(name string, rate int64, change ...func(*Options)) *vm {
	w.t.Helper()
	v := &vm{w: w, name: name, host: w.net.Host(name, rate), catalog: NewCatalog(), done: make(chan error, 1)}
	o := Options{
		VM: name, Catalog: v.catalog, Dial: v.host.Dial,
		Identity: func() (string, []ed25519.PublicKey) {
			return tenant, []ed25519.PublicKey{w.key.Public().(ed25519.PublicKey)}
		},
		Report: func(r Report) {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.reports = append(v.reports, r)
		},
	}
	for _, f := range change {
		f(&o)
	}
	var err error
	if v.relay, err = New(o); err != nil {
		w.t.Fatal(err)
	}
	if v.store, err = store.Open(w.t.TempDir(), store.Options{}); err != nil {
		w.t.Fatal(err)
	}
	origin := w.from(name)
	if _, streams := origin.(block.Streamer); !streams {
		origin = v.alive(origin)
	}
	v.fetcher, err = fetch.New(v.store, func(digest.Digest) block.Source { return origin }, fetch.Options{
		Upstreams: v.relay, OnReceive: v.relay.Received, OnTouch: v.catalog.Touched,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	v.catalog.Add(function)
	v.catalog.SetLayers(function, []Layer{{w.layer.Digest, w.layer.Table}})
	ctx, stop := context.WithCancel(context.Background())
	v.stop = stop
	l, give := v.host.Listen(), Blocks(v.fetcher)
	if w.wrap != nil {
		give = w.wrap(give)
	}
	go func() { v.done <- v.relay.Run(ctx, l, give) }()
	w.t.Cleanup(func() {
		stop()
		err := <-v.done
		if err := errors.Join(err, v.fetcher.Close(), v.store.Close()); err != nil {
			w.t.Error(err)
		}
	})
	synctest.Wait()
	return v
}

// kill ends v as kill -9 does: it says nothing, does nothing, hears nothing.
func (v *vm) kill() {
	v.dead.Store(true)
	v.host.Kill()
	v.stop()
}

// alive is src for as long as v lives.
func (v *vm) alive(src block.Source) block.Source {
	return block.SourceFunc(func(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
		if v.dead.Load() {
			return dst, errdefs.ErrPermissionDenied
		}
		return src.ReadBlock(ctx, ref, dst)
	})
}

func (v *vm) peer() Peer { return Peer{v.name, v.host.Address()} }

// token makes one for v, changed by f.
func (v *vm) token(f ...func(*identity.Claims)) string {
	c := identity.Claims{Use: identity.Read, Tenant: tenant, Function: function, VM: v.name, Expires: time.Now().Add(time.Minute)}
	for _, f := range f {
		f(&c)
	}
	token, err := identity.Sign(v.w.key, c)
	if err != nil {
		v.w.t.Fatal(err)
	}
	return token
}

// below places v in each stripe below the given VMs, nearest first.
func (v *vm) below(epoch uint64, stripes ...[]*vm) {
	v.w.t.Helper()
	p := Place{Epoch: epoch, Token: v.token()}
	for _, above := range stripes {
		var s Stripe
		for i, u := range above {
			if i == 0 {
				s.Upstream = u.peer()
			} else {
				s.Ancestors = append(s.Ancestors, u.peer())
			}
		}
		p.Stripes = append(p.Stripes, s)
	}
	v.place(p)
}

func (v *vm) place(p Place) {
	v.w.t.Helper()
	if err := v.relay.Place(function, p); err != nil {
		v.w.t.Fatal(err)
	}
}

// chain places VMs one below the other, and waits until all follow.
func (w *world) chain(vms ...*vm) {
	for i := range vms {
		var above []*vm
		for j := i - 1; j >= 0; j-- {
			above = append(above, vms[j])
		}
		vms[i].below(1, above)
	}
	time.Sleep(100 * time.Millisecond)
	for _, v := range vms[:len(vms)-1] {
		if v.relay.Children() != 1 {
			w.t.Fatalf("%d VMs follow %s", v.relay.Children(), v.name)
		}
	}
}

// read reads block i as a container would, and checks it.
func (v *vm) read(i int) error {
	p, err := v.fetcher.ReadBlock(v.w.t.Context(), v.w.layer.Ref(i), nil)
	if err == nil && !bytes.Equal(p, v.w.layer.Frame(i)) {
		err = errors.New("wrong bytes")
	}
	if err != nil {
		err = fmt.Errorf("%s, block %d: %w", v.name, i, err)
	}
	return err
}

func (v *vm) mustRead(is ...int) {
	v.w.t.Helper()
	for _, i := range is {
		if err := v.read(i); err != nil {
			v.w.t.Error(err)
		}
	}
}

func (v *vm) has(i int) bool { return v.store.Has(v.w.layer.Ref(i)) }

func (v *vm) reported(f Fault) (vms []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, r := range v.reports {
		if r.Fault == f {
			vms = append(vms, r.VM)
		}
	}
	return vms
}

// readAll reads all blocks as a container would that is quick: some at a time,
// in order.
func (v *vm) readAll() error {
	var g errgroup.Group
	g.SetLimit(4)
	for i := range v.w.layer.Table.Len() {
		g.Go(func() error { return v.read(i) })
	}
	return g.Wait()
}

// all runs f for all VMs at once and reports what fails.
func (w *world) all(vms []*vm, f func(*vm) error) {
	w.t.Helper()
	var wg sync.WaitGroup
	for _, v := range vms {
		wg.Go(func() {
			if err := f(v); err != nil {
				w.t.Error(err)
			}
		})
	}
	wg.Wait()
}

// asked returns how often the registry was asked for each block.
func (w *world) asked() (most, total int) {
	counts := map[int]int{}
	for _, r := range w.origin.Refs() {
		counts[r.Number]++
		most = max(most, counts[r.Number])
		total++
	}
	return most, total
}

// binary starts n VMs as one complete binary tree.
func (w *world) binary(n int, rate int64) []*vm {
	w.t.Helper()
	var vms []*vm
	for i := range n {
		vms = append(vms, w.start(fmt.Sprint("vm", i), rate))
	}
	for i, v := range vms {
		p := Place{Epoch: 1, Token: v.token(), Stripes: []Stripe{heap(vms, i)}}
		v.place(p)
	}
	time.Sleep(100 * time.Millisecond)
	return vms
}

// heap is the place of VM i in a complete binary tree of vms.
func heap(vms []*vm, i int) Stripe {
	var s Stripe
	for up := i; up > 0; {
		up = (up - 1) / 2
		if s.Upstream.VM == "" {
			s.Upstream = vms[up].peer()
		} else {
			s.Ancestors = append(s.Ancestors, vms[up].peer())
		}
	}
	for _, d := range []int{2*i + 1, 2*i + 2} {
		if d < len(vms) {
			s.Downstream = append(s.Downstream, vms[d].peer())
		}
	}
	return s
}

// striped starts n VMs as two interior-disjoint binary trees: the first half is
// the interior of one, the second half that of the other.
func (w *world) striped(n int, rate int64) []*vm {
	w.t.Helper()
	var vms []*vm
	for i := range n {
		vms = append(vms, w.start(fmt.Sprint("vm", i), rate))
	}
	half := n / 2
	order := append(append([]*vm{}, vms[half:]...), vms[:half]...)
	for i, v := range vms {
		v.place(Place{Epoch: 1, Token: v.token(), Stripes: []Stripe{heap(vms, i), heap(order, (i+n-half)%n)}})
	}
	time.Sleep(100 * time.Millisecond)
	return vms
}

type blob = digest.Digest

func isNotFound(err error) bool { return errdefs.IsNotFound(err) }

func (v *vm) mustReadAll() {
	v.w.t.Helper()
	if err := v.readAll(); err != nil {
		v.w.t.Error(err)
	}
}

func (v *vm) neighbourOf(u *vm) *neighbour {
	v.relay.mu.Lock()
	defer v.relay.mu.Unlock()
	return v.relay.neighbour(u.peer())
}

// lies gives wrong bytes under a good verdict, and hides what is stored so that
// all it gives passes through it.
type lies struct{ Blocks }

func (l lies) Open(context.Context, block.Ref) (*os.File, error) { return nil, errdefs.ErrNotFound }

func (l lies) Tap(ctx context.Context, ref block.Ref) (block.Tap, error) {
	t, err := l.Blocks.Tap(ctx, ref)
	return liar{t}, err
}

func (l lies) Watch(ref block.Ref) (block.Tap, error) {
	t, err := l.Blocks.Watch(ref)
	return liar{t}, err
}

type liar struct{ block.Tap }

func (l liar) Next(ctx context.Context) ([]byte, error) {
	p, err := l.Tap.Next(ctx)
	if len(p) > 0 {
		p = bytes.Clone(p)
		p[len(p)-1] ^= 1
	}
	return p, err
}
