package wires

import (
	"context"
	"crypto/ed25519"
	"net"
	"time"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/fetch"
	"github.com/faasnet/faasnet/peer"
	"github.com/faasnet/faasnet/peer/identity"
)

const (
	tenant   = "bench"
	function = "relayed"
)

// relay is our protocol: blocks are pushed to those who follow.
type relay struct{ *peer.Relay }

func newRelay(c Config, load *Load) (wire, error) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)) // nobody else is in these namespaces
	catalog := peer.NewCatalog()
	catalog.Add(function)
	catalog.SetLayers(function, []peer.Layer{{Blob: load.blob, Table: load.table}})
	r, err := peer.New(peer.Options{
		VM: c.Name, Catalog: catalog,
		Identity: func() (string, []ed25519.PublicKey) {
			return tenant, []ed25519.PublicKey{key.Public().(ed25519.PublicKey)}
		},
	})
	if err != nil {
		return nil, err
	}
	token, err := identity.Sign(key, identity.Claims{
		Use: identity.Read, Tenant: tenant, Function: function, VM: c.Name, Expires: time.Now().Add(24 * time.Hour),
	})
	if err != nil {
		return nil, err
	}
	place := peer.Place{Epoch: 1, Token: token, Stripes: []peer.Stripe{{}}}
	if c.Above != "" {
		place.Stripes[0].Upstream = peer.Peer{VM: c.Above, Address: c.Upstream}
	}
	return relay{r}, r.Place(function, place)
}

func (r relay) serve(ctx context.Context, l net.Listener, f *fetch.Fetcher) error {
	return r.Run(ctx, l, f)
}

// Sources waits a little for Run to begin: readers may be quicker.
func (r relay) Sources(ref block.Ref) []block.Source {
	for end := time.Now().Add(time.Second); ; time.Sleep(time.Millisecond) {
		if all := r.Relay.Sources(ref); len(all) > 0 || time.Now().After(end) {
			return all
		}
	}
}

func (r relay) received(ref block.Ref) { r.Received(ref) }
