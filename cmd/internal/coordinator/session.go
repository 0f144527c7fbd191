package coordinator

import (
	"context"
	"time"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

// session is one live stream of one VM.
type session struct {
	member
	address string
	end     context.CancelCauseFunc // ends the stream

	// Guarded by Coordinator.mu.
	functions map[string]bool
	heard     time.Time // last message of any kind
	busy      time.Time // last time it joined, read or relayed
	bytes     uint64    // read and relayed, of the last heartbeat

	outbox outbox
}

// outbox holds what the VM must still be told: of each function only the
// newest, so that a VM that does not read costs a bounded amount of memory.
type outbox struct {
	pending map[string]*treepb.ToVM // guarded by Coordinator.mu
	wake    chan struct{}
}

func newOutbox() outbox {
	return outbox{pending: map[string]*treepb.ToVM{}, wake: make(chan struct{}, 1)}
}

// post replaces what was to be said of the function.
func (o *outbox) post(function string, m *treepb.ToVM) {
	o.pending[function] = m
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// take empties the outbox.
func (o *outbox) take() []*treepb.ToVM {
	out := make([]*treepb.ToVM, 0, len(o.pending))
	for f, m := range o.pending {
		out = append(out, m)
		delete(o.pending, f)
	}
	return out
}

func (s *session) refuse(function, reason string, retry bool) {
	s.outbox.post(function, &treepb.ToVM{Message: &treepb.ToVM_Refusal{
		Refusal: &treepb.Refusal{Function: function, Reason: reason, Retry: retry},
	}})
}

func (s *session) peer() *treepb.Peer {
	return &treepb.Peer{Vm: string(s.vm), Address: s.address}
}

// peerOf returns vm of a tenant as others know it, nil for the origin.
func (c *Coordinator) peerOf(tenant string, vm tree.VM) *treepb.Peer {
	if vm == tree.Origin {
		return nil
	}
	if s := c.sessions[member{tenant, vm}]; s != nil {
		return s.peer()
	}
	return nil
}
