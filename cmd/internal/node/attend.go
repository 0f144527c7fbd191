package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"golang.org/x/sync/errgroup"

	"github.com/faasnet/faasnet/cmd/internal/config"
	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/fetch"
	"github.com/faasnet/faasnet/treeclient"
)

// enter takes part in the tree of the function that a layer is of, in the
// background: joins it and, with the image section, fetches that, so that this VM
// can serve others before it has mounted anything itself. claimed says that all
// layers of the image have been.
func (n *Node) enter(name string, section *block.Ref, claimed bool) {
	n.background(func(ctx context.Context) {
		n.fleet.join(ctx, name)
		if section == nil {
			return
		}
		within, cancel := context.WithTimeout(ctx, n.mountTimeout)
		defer cancel()
		image, err := n.image(within, *section)
		if err != nil {
			log.G(ctx).WithError(err).Info("image section is not here yet, the first mount will try again")
			return
		}
		for _, l := range image.Layers {
			if claimed && n.origins.source(l.Digest) == nil {
				return // not of this image, as far as we were told: the mount will know
			}
		}
		n.ahead(name, tapes(image), n.fleet.made(name, image))
	})
}

// orderSlots bounds the blocks that are fetched at a time in a learned order.
const orderSlots = 4

// learn fetches what the upstream's container read first, in its order.
func (n *Node) learn(ctx context.Context, name string) {
	if !n.fleet.order {
		return
	}
	refs, err := n.fleet.relay.Order(ctx, name)
	if err != nil {
		if !errdefs.IsNotFound(err) {
			log.G(ctx).WithError(err).WithField("function", name).Debug("no learned order")
		}
		return
	}
	ctx = fetch.WithPriority(ctx, fetch.Order)
	var g errgroup.Group
	g.SetLimit(orderSlots)
	for _, ref := range refs {
		if ctx.Err() != nil {
			break
		}
		if n.store.Has(ref) || !n.origins.has(ref.Blob) { // the image may be gone by now
			continue
		}
		g.Go(func() error {
			if _, err := n.fetcher.ReadBlock(ctx, ref, nil); err != nil {
				log.G(ctx).WithError(err).Debug("not fetched ahead")
			}
			return nil
		})
	}
	_ = g.Wait() // each has said what it had to
}

// held counts the blocks of a function that are stored here.
func (f *fleet) held(name string) uint64 { return f.catalog.Count(name, f.stored) }

// load is what the coordinator is told this VM does.
func (f *fleet) load() treeclient.Load {
	sent, _ := f.relay.Relayed()
	return treeclient.Load{Relayed: uint64(sent), Read: f.read(), Children: f.relay.Children()}
}

// trust is how others are known: TLS towards the coordinators and between VMs,
// nil for none.
type trust struct{ coordinator, peers *tls.Config }

func fleetTLS(cfg *config.Config, vm string) (t trust, err error) {
	if cfg.Tree.CA != "" {
		pool, err := authority(cfg.Tree.CA)
		if err != nil {
			return t, fmt.Errorf("tree.ca: %w", err)
		}
		t.coordinator = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}
	}
	if cfg.Tree.Certificate != "" {
		own := keyPair{cfg.Tree.Certificate, cfg.Tree.Key}
		if _, err := own.load(); err != nil {
			return t, fmt.Errorf("tree.certificate: %w", err)
		}
		t.coordinator.GetClientCertificate = own.client
	}
	if cfg.Peer.Certificate == "" {
		return t, nil
	}
	pool, err := authority(cfg.Peer.CA)
	if err != nil {
		return t, fmt.Errorf("peer.ca: %w", err)
	}
	own := keyPair{cfg.Peer.Certificate, cfg.Peer.Key}
	pair, err := own.load()
	if err == nil { // else no other VM would speak to this one, and say so there only
		err = pair.Leaf.VerifyHostname(vm)
	}
	if err != nil {
		return t, fmt.Errorf("peer.certificate: %w", err)
	}
	t.peers = &tls.Config{GetCertificate: own.server, GetClientCertificate: own.client, RootCAs: pool, ClientCAs: pool, MinVersion: tls.VersionTLS13}
	return t, nil
}

// keyPair is the files of a certificate and its key. They are read again at each
// connection: one that is renewed needs no restart.
type keyPair struct{ certificate, key string }

func (k keyPair) load() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(k.certificate, k.key)
	return &pair, err
}

func (k keyPair) client(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return k.load() }

func (k keyPair) server(*tls.ClientHelloInfo) (*tls.Certificate, error) { return k.load() }

func authority(path string) (*x509.CertPool, error) {
	p, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(p) {
		return nil, fmt.Errorf("%s: no certificate: %w", path, errdefs.ErrInvalidArgument)
	}
	return pool, nil
}
