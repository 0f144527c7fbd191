package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/containerd/log"
	"github.com/opencontainers/go-digest"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/faasnet/faasnet/cmd/internal/config"
	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/fetch"
	"github.com/faasnet/faasnet/fs/layer"
	"github.com/faasnet/faasnet/fs/store"
	"github.com/faasnet/faasnet/peer"
	"github.com/faasnet/faasnet/treeclient"
)

// fleet is this VM's part among the VMs of its trees. It is nil where there are
// none, and its methods then do nothing.
type fleet struct {
	catalog  *peer.Catalog
	relay    *peer.Relay
	client   *treeclient.Client
	listener net.Listener
	order    bool
	strict   bool // the registry is for roots only
	wait     time.Duration

	// What this VM has and does, set before the fleet runs.
	stored func(block.Ref) bool
	read   func() uint64

	mu        sync.Mutex // guards functions; no other lock is taken under it
	functions map[string]*function
}

// function is one that this VM reads, or will.
type function struct {
	index digest.Digest // of its index layer; empty while that is not known
	made  bool          // the catalog knows its layers
}

// newFleet opens the relay's port. The fleet is closed before or after it ran.
func newFleet(ctx context.Context, cfg *config.Config, r prometheus.Registerer) (_ *fleet, err error) {
	if !cfg.Tree.Enabled {
		return nil, nil //nolint:nilnil // none is a good fleet
	}
	vm := cfg.Tree.VM
	if vm == "" {
		if vm, err = os.Hostname(); err != nil {
			return nil, err
		}
	}
	f := &fleet{catalog: peer.NewCatalog(), order: cfg.Peer.Order, strict: cfg.Tree.Strict, wait: time.Duration(cfg.Tree.JoinTimeout), functions: map[string]*function{}}
	trust, err := fleetTLS(cfg, vm)
	if err != nil {
		return nil, err
	}
	f.client, err = treeclient.New(treeclient.Options{
		Coordinators: cfg.Tree.Coordinators, VM: vm, Address: cfg.Peer.Address, TLS: trust.coordinator, Wait: time.Duration(cfg.Tree.JoinTimeout),
		Credential: credential(cfg.Tree.Credential), Changed: f.changed, Held: f.held, Load: f.load, Registerer: r,
	})
	if err != nil {
		return nil, err
	}
	f.relay, err = peer.New(peer.Options{
		VM: vm, Catalog: f.catalog, Identity: f.client.Identity, TLS: trust.peers, Report: f.report,
		Upload: int64(cfg.Peer.Upload), MaxConns: cfg.Peer.MaxConnections, Silence: time.Duration(cfg.Peer.Silence), Registerer: r,
	})
	if err != nil {
		return nil, err
	}
	var listen net.ListenConfig
	if f.listener, err = listen.Listen(ctx, "tcp", cfg.Peer.Address); err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	return f, nil
}

// credential reads the file at each call.
func credential(path string) func() (string, error) {
	if path == "" {
		return nil
	}
	return func() (string, error) {
		p, err := os.ReadFile(path)
		return strings.TrimSpace(string(p)), err
	}
}

func (f *fleet) close() error {
	if f == nil || f.listener == nil {
		return nil
	}
	if err := f.listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// tap makes a fetcher read from the fleet, and tell it what it reads.
func (f *fleet) tap(o *fetch.Options) {
	if f != nil {
		o.Upstreams, o.OnReceive, o.OnTouch = f.relay, f.relay.Received, f.catalog.Touched
	}
}

// over says of which store and fetcher the fleet speaks.
func (f *fleet) over(s *store.Store, r *fetch.Fetcher) {
	if f == nil {
		return
	}
	f.stored = s.Has
	f.read = func() uint64 {
		stored, fetched := r.Bytes()
		return uint64(stored + fetched)
	}
}

// run serves other VMs from b, and attends the coordinator, until ctx ends.
func (f *fleet) run(ctx context.Context, b peer.Blocks) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return f.relay.Run(ctx, f.listener, b) })
	g.Go(func() error { return f.client.Run(ctx) })
	return g.Wait()
}

// changed hands a new place to the relay.
func (f *fleet) changed(function string, _, now treeclient.Place) {
	p := peer.Place{Epoch: now.Epoch, Token: now.Token}
	for _, s := range now.Stripes {
		p.Stripes = append(p.Stripes, peer.Stripe{
			Upstream: peer.Peer(s.Upstream), Ancestors: peersOf(s.Ancestors), Downstream: peersOf(s.Downstream),
		})
	}
	if len(p.Stripes) == 0 {
		p = peer.Place{}
	}
	if err := f.relay.Place(function, p); err != nil {
		log.L.WithError(err).WithField("function", function).Error("place in a tree is of no use")
	}
}

func peersOf(peers []treeclient.Peer) (out []peer.Peer) {
	for _, p := range peers {
		out = append(out, peer.Peer(p))
	}
	return out
}

func (f *fleet) report(r peer.Report) {
	f.client.Report(r.Function, r.Stripe, r.VM, treeclient.Fault(r.Fault), r.Since)
}

// manifestLabel is what containerd's CRI plugin says of the image that a layer is
// pulled for.
const manifestLabel = "containerd.io/snapshot/cri.manifest-digest"

// functionOf returns the function that a layer is pulled for: its image's
// manifest, else its image section, which only the index layer names. Empty: it
// is not known.
func functionOf(labels map[string]string, info layer.Info) string {
	if d := digest.Digest(labels[manifestLabel]); d.Validate() == nil {
		return d.String()
	}
	if info.Image != nil {
		return digest.NewDigestFromBytes(digest.SHA256, info.Image.Sum[:]).String()
	}
	return ""
}

// know remembers what is known of a function by one of its layers, and reports
// whether the function, or its index layer, is news.
func (f *fleet) know(name string, info layer.Info) (news bool) {
	if f == nil || name == "" {
		return false
	}
	sections := []block.Ref{info.Meta}
	if info.Image != nil {
		sections = append(sections, *info.Image)
	}
	f.mu.Lock()
	fn := f.functions[name]
	if fn == nil {
		fn, news = &function{}, true
		f.functions[name] = fn
	}
	if info.Image != nil {
		news = news || fn.index == ""
		fn.index = info.Digest
	}
	f.mu.Unlock()
	f.catalog.Add(name, sections...)
	return news
}

// foresee remembers the image section of a function whose index layer has not been
// asked for yet.
func (f *fleet) foresee(name string, above *layer.Above) {
	if f != nil && above != nil {
		f.catalog.Add(name, above.Image)
	}
}

// join asks for a place in the function's tree and waits a moment for it.
// Without one the registry is read.
func (f *fleet) join(ctx context.Context, name string) {
	if f == nil || name == "" {
		return
	}
	_, err := f.client.Join(ctx, name)
	if err != nil && f.strict {
		err = f.await(ctx, name, err)
	}
	if err != nil && ctx.Err() == nil {
		log.G(ctx).WithError(err).WithField("function", name).Debug("read from the registry for now")
	}
}

// made says what the function's image is made of, and reports whether that is
// news.
func (f *fleet) made(name string, image *layer.Image) bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	fn := f.functions[name]
	news := fn != nil && !fn.made
	if news {
		fn.made = true
	}
	f.mu.Unlock()
	if !news {
		return false
	}
	layers := make([]peer.Layer, 0, len(image.Layers))
	for _, l := range image.Layers {
		layers = append(layers, peer.Layer{Blob: l.Digest, Table: l.Table})
	}
	f.catalog.SetLayers(name, layers)
	return true
}

// retain leaves the functions of which there is no layer any more: the index
// layer, or any where that has not come yet.
func (f *fleet) retain(live map[string][]digest.Digest) {
	if f == nil {
		return
	}
	var gone []string
	f.mu.Lock()
	for name, fn := range f.functions {
		keep := false
		for _, d := range live[name] {
			keep = keep || fn.index == "" || d == fn.index
		}
		if !keep {
			delete(f.functions, name)
			gone = append(gone, name)
		}
	}
	f.mu.Unlock()
	for _, name := range gone {
		f.client.Leave(name)
		f.catalog.Remove(name)
	}
}
