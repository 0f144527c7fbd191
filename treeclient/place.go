package treeclient

import (
	"time"

	"github.com/faasnet/faasnet/treeclient/treepb"
)

// Peer is another VM, as the coordinator names it. The zero Peer stands for
// the origin.
type Peer struct {
	VM      string
	Address string // host:port of its relay
}

// Place is this VM's place in a function's tree.
type Place struct {
	Epoch   uint64 // grows with every change of the place
	Stripes []Stripe
	Token   string    // to be shown to upstream VMs
	Expires time.Time // of Token
}

// Stripe is the place in one of the trees. Block i of the image travels in
// stripe i mod len(Stripes).
type Stripe struct {
	Upstream   Peer
	Ancestors  []Peer // beyond Upstream, nearest first, the root last
	Downstream []Peer // two at most
}

func placeOf(a *treepb.Assignment) Place {
	p := Place{Epoch: a.Epoch, Token: a.Token, Expires: a.TokenExpires.AsTime()}
	for _, s := range a.Stripes {
		p.Stripes = append(p.Stripes, Stripe{
			Upstream:   peerOf(s.Upstream),
			Ancestors:  peersOf(s.Ancestors),
			Downstream: peersOf(s.Downstream),
		})
	}
	return p
}

func peerOf(p *treepb.Peer) Peer { return Peer{VM: p.GetVm(), Address: p.GetAddress()} }

func peersOf(ps []*treepb.Peer) []Peer {
	var out []Peer
	for _, p := range ps {
		out = append(out, peerOf(p))
	}
	return out
}
