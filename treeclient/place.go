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

// Place is this VM's place in a function's tree. The zero Place is none: read
// from the origin. What it holds must not be changed.
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

// Fault is what is wrong with a neighbour.
type Fault int

// The faults.
const (
	Unreachable Fault = iota + 1 // no connection, or it was lost
	Silent                       // keep-alives stay away
	Corrupt                      // bad bytes under a good verdict
	Slow
	Quiet // perhaps Silent soon; it is gone if the coordinator does not hear it either
)

func (f Fault) wire() treepb.Report_Fault {
	switch f {
	case Unreachable:
		return treepb.Report_FAULT_UNREACHABLE
	case Silent:
		return treepb.Report_FAULT_SILENT
	case Corrupt:
		return treepb.Report_FAULT_CORRUPT
	case Slow:
		return treepb.Report_FAULT_SLOW
	}
	return treepb.Report_FAULT_UNSPECIFIED
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
