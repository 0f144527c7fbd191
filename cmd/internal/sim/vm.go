package sim

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/opencontainers/go-digest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/fetch"
	"github.com/faasnet/faasnet/fs/registry"
	"github.com/faasnet/faasnet/fs/store"
	"github.com/faasnet/faasnet/peer"
	"github.com/faasnet/faasnet/peer/peertest"
	"github.com/faasnet/faasnet/treeclient"
)

// vm is one VM. Its parts are wired as cmd/internal/node wires them.
type vm struct {
	w      *world
	number int
	name   string
	dir    string
	host   *peertest.Host
	cpu    *cores // nil: what it computes takes no time

	life     interface{ end() } // its container; as up
	up       *wiring            // changes while nothing else of the VM runs
	ownReads atomic.Int64
	dead     atomic.Bool // what it still asks nobody hears

	mu      sync.Mutex // guards what follows
	places  map[string]treeclient.Place
	reports []peer.Report
	decoded map[decoded]bool
}

// wiring is the parts of a VM that runs.
type wiring struct {
	store    *store.Store
	registry *registry.Client
	fetcher  *fetch.Fetcher
	catalog  *peer.Catalog
	relay    *peer.Relay
	client   *treeclient.Client
	gives    peer.Blocks // the fetcher, as the relay has it

	stop func()
}

// boot starts the VM with what is in its directory.
func (v *vm) boot() {
	u := &wiring{}
	v.dead.Store(false)
	if err := v.wire(u); err != nil {
		v.w.t.Fatalf("%s: %v", v.name, err)
	}
	v.up = u
	v.mu.Lock()
	v.places = map[string]treeclient.Place{}
	v.mu.Unlock()
	ctx, cancel := context.WithCancel(background)
	var wg sync.WaitGroup
	run := func(what string, f func(context.Context) error) {
		wg.Go(func() {
			if err := f(ctx); err != nil {
				v.w.t.Errorf("%s: %s: %v", v.name, what, err)
			}
		})
	}
	l := net.Listener(costlyListener{v.host.Listen(), v})
	run("relay", func(ctx context.Context) error { return u.relay.Run(ctx, l, u.gives) })
	if !v.w.o.noTree {
		run("tree client", u.client.Run)
	}
	run("fetcher", u.fetcher.Run)
	u.stop = sync.OnceFunc(func() {
		err := u.fetcher.Close() // first, else what its peers do not give any more is asked of the registry
		cancel()
		wg.Wait()
		if err := errors.Join(err, u.registry.Close(), u.store.Close()); err != nil {
			v.w.t.Errorf("%s: %v", v.name, err)
		}
	})
}

func (v *vm) wire(u *wiring) (err error) {
	if u.store, err = store.Open(v.dir, store.Options{MaxFlatBytes: v.w.o.flat}); err != nil {
		return err
	}
	u.registry, err = registry.New(registry.Options{
		PlainHTTP: []string{v.w.regHost.Address()},
		Dial: func(ctx context.Context, _, address string) (net.Conn, error) {
			return v.costly(v.host.Dial(ctx, address))
		},
	})
	if err != nil {
		return err
	}
	blobs, err := u.registry.Blobs(v.w.regHost.Address() + "/" + repository + ":latest")
	if err != nil {
		return err
	}
	u.catalog = peer.NewCatalog()
	u.client, err = treeclient.New(treeclient.Options{
		Coordinators: []string{v.w.tree.host.Address()}, VM: v.name, Address: v.host.Address(), Dial: v.dialCoordinator,
		Changed: func(function string, _, p treeclient.Place) { v.changed(u, function, p) },
		Held:    func(function string) uint64 { return v.held(function) },
		Load: func() treeclient.Load {
			sent, _ := u.relay.Relayed()
			return treeclient.Load{Relayed: uint64(sent), Read: uint64(v.ownReads.Load()), Children: u.relay.Children()}
		},
	})
	if err != nil {
		return err
	}
	u.relay, err = peer.New(peer.Options{
		VM: v.name, Catalog: u.catalog, Dial: v.dialPeer,
		Identity: func() (string, []ed25519.PublicKey) { return u.client.Identity() },
		Report:   func(r peer.Report) { v.report(u, r) },
	})
	if err != nil {
		return err
	}
	h, asks, received := v.w.o.hooks, fetch.Upstreams(u.relay), u.relay.Received
	if h.asks != nil {
		asks = h.asks(v, u.relay)
	}
	if h.comes != nil {
		received = func(ref block.Ref) {
			h.comes(v, ref)
			u.relay.Received(ref)
		}
	}
	u.fetcher, err = fetch.New(u.store, func(digest.Digest) block.Source { return origin{v, blobs.(block.Streamer)} }, fetch.Options{
		Upstreams: asks, OnReceive: received, OnTouch: u.catalog.Touched, NoFill: v.w.o.noFill,
	})
	u.gives = u.fetcher
	if h.gives != nil {
		u.gives = h.gives(v, u.fetcher)
	}
	return err
}

func (v *vm) dialPeer(ctx context.Context, address string) (net.Conn, error) {
	if v.w.o.deaf {
		return nil, fmt.Errorf("dial %s: %w", address, syscall.ECONNREFUSED)
	}
	return v.costly(v.host.Dial(ctx, address))
}

// dialCoordinator is treeclient's own dialler over the modelled network.
func (v *vm) dialCoordinator(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: 3 * time.Second}),
		grpc.WithContextDialer(v.host.Dial),
	)
}

// changed hands a place on to the relay.
func (v *vm) changed(u *wiring, function string, p treeclient.Place) {
	v.mu.Lock()
	v.places[function] = p
	v.mu.Unlock()
	v.w.logf("%s: epoch %d, reads from %v", v.name, p.Epoch%4096, upstreams(p))
	if moves := v.w.o.hooks.moves; moves != nil && !moves(v, p) {
		return
	}
	if err := u.relay.Place(function, relayPlace(p)); err != nil {
		v.w.t.Errorf("%s: %v", v.name, err)
	}
}

func (v *vm) report(u *wiring, r peer.Report) {
	v.w.logf("%s: reports %s: %v", v.name, r.VM, r.Fault)
	v.mu.Lock()
	v.reports = append(v.reports, r)
	v.mu.Unlock()
	u.client.Report(r.Function, r.Stripe, r.VM, treeclient.Fault(r.Fault), r.Since)
}

func (v *vm) place(function string) treeclient.Place {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.places[function]
}

// held returns how many blocks of a function's image the VM has.
func (v *vm) held(function string) (n uint64) {
	for _, m := range v.w.o.images {
		if m.function != function {
			continue
		}
		for _, l := range m.layers {
			for i := range l.Table.Len() {
				if v.up.store.Has(l.Ref(i)) {
					n++
				}
			}
		}
	}
	return n
}

// stop ends the VM's process, containers first. Its network decides what others
// hear of that.
func (v *vm) stop() {
	if v.life != nil {
		v.life.end()
		v.life = nil
	}
	if v.up != nil {
		v.up.stop()
	}
}

// kill ends the VM as kill -9 does.
func (v *vm) kill() {
	v.dead.Store(true)
	v.host.Kill()
	v.stop()
}

func relayPlace(p treeclient.Place) peer.Place {
	out := peer.Place{Epoch: p.Epoch, Token: p.Token}
	for _, s := range p.Stripes {
		out.Stripes = append(out.Stripes, peer.Stripe{
			Upstream: peer.Peer(s.Upstream), Ancestors: relayPeers(s.Ancestors), Downstream: relayPeers(s.Downstream),
		})
	}
	return out
}

func relayPeers(ps []treeclient.Peer) (out []peer.Peer) {
	for _, p := range ps {
		out = append(out, peer.Peer(p))
	}
	return out
}

// upstreams returns whom a place has above it, "" for the origin.
func upstreams(p treeclient.Place) (out []string) {
	for _, s := range p.Stripes {
		out = append(out, s.Upstream.VM)
	}
	return out
}
