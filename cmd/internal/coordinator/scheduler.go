package coordinator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"google.golang.org/grpc/metadata"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

// scheduler is the face to whoever places functions on VMs.
type scheduler struct {
	treepb.UnimplementedSchedulerServer
	c *Coordinator
}

func (f scheduler) Insert(_ context.Context, r *treepb.PlaceRequest) (*treepb.InsertResponse, error) {
	k, vm, err := target(r)
	if err != nil {
		return nil, errgrpc.ToGRPC(err)
	}
	if err := f.c.elsewhere(k); err != nil {
		return nil, err
	}
	res, err := f.c.insert(k, vm, time.Now())
	return res, errgrpc.ToGRPC(err)
}

func (c *Coordinator) insert(k Key, vm tree.VM, now time.Time) (*treepb.InsertResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if owner := c.opts.Journal.Owner(k, nil); owner != "" { // since a moment ago
		return nil, fmt.Errorf("coordinator %s keeps %s: %w", owner, k.Function, errdefs.ErrUnavailable)
	}
	s := c.sessions[member{k.Tenant, vm}]
	switch {
	case s == nil:
		return nil, fmt.Errorf("VM %q does not attend: %w", vm, errdefs.ErrFailedPrecondition)
	case s.seats[k.Function] != nil:
		return nil, fmt.Errorf("VM %q has a place in %s: %w", vm, k.Function, errdefs.ErrAlreadyExists)
	case len(s.seats) >= c.opts.MaxFunctions:
		return nil, fmt.Errorf("VM %q is in %d functions: %w", vm, len(s.seats), errdefs.ErrResourceExhausted)
	}
	s.busy = now
	g := c.grove(k, now)
	at := c.sit(s, g, 0, now)
	at.inserted = true
	moves := c.place(at)
	res := &treepb.InsertResponse{Epoch: g.epoch(), Moves: wireMoves(moves)}
	for _, up := range upstreams(g.tree, vm) {
		p := &treepb.Peer{}
		if up != tree.Origin {
			p = g.peer(up)
		}
		res.Upstreams = append(res.Upstreams, p)
	}
	return res, nil
}

func (f scheduler) Delete(_ context.Context, r *treepb.PlaceRequest) (*treepb.DeleteResponse, error) {
	k, vm, err := target(r)
	if err != nil {
		return nil, errgrpc.ToGRPC(err)
	}
	c := f.c
	if err := c.elsewhere(k); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.seat(k, vm)
	if at == nil {
		return nil, errgrpc.ToGRPC(fmt.Errorf("VM %q has no place in %s: %w", vm, k.Function, errdefs.ErrNotFound))
	}
	moves := c.free(at, c.tell)
	at.session.refuse(k.Function, "taken out by the scheduler", treepb.Refusal_AGAIN_NEVER)
	return &treepb.DeleteResponse{Epoch: at.grove.epoch(), Moves: wireMoves(moves)}, nil
}

func (f scheduler) GetTree(_ context.Context, r *treepb.GetTreeRequest) (*treepb.Tree, error) {
	k := keyOf(r.GetFunction())
	if err := f.c.elsewhere(k); err != nil {
		return nil, err
	}
	t := f.c.Tree(k)
	if t == nil {
		return nil, errgrpc.ToGRPC(fmt.Errorf("no tree of %q: %w", r.GetFunction().GetId(), errdefs.ErrNotFound))
	}
	return t, nil
}

func (f scheduler) ListTrees(_ context.Context, r *treepb.ListTreesRequest) (*treepb.ListTreesResponse, error) {
	c := f.c
	c.mu.Lock()
	keys := slices.Collect(maps.Keys(c.groves))
	c.mu.Unlock()
	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Function, b.Function))
	})
	res := &treepb.ListTreesResponse{}
	for _, k := range keys {
		if r.Tenant == "" || r.Tenant == k.Tenant {
			if sum := c.summary(k); sum != nil {
				res.Trees = append(res.Trees, sum)
			}
		}
	}
	return res, nil
}

func (c *Coordinator) summary(k Key) *treepb.Summary {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groves[k]
	if g == nil {
		return nil
	}
	return &treepb.Summary{
		Function: &treepb.Function{Tenant: k.Tenant, Id: k.Function},
		Vms:      uint32(g.tree.Len()), Depth: g.depth(), Epoch: g.epoch(),
	}
}

func (f scheduler) Watch(r *treepb.WatchRequest, stream treepb.Scheduler_WatchServer) error {
	if r.GetFunction().GetId() != "" {
		if err := f.c.elsewhere(keyOf(r.Function)); err != nil {
			return err
		}
	}
	w := f.c.watches.open(r.GetFunction())
	defer f.c.watches.close(w)
	if err := stream.SendHeader(metadata.MD{}); err != nil {
		return err
	}
	for {
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-f.c.done:
			return errgrpc.ToGRPC(errStopping)
		case change, ok := <-w.changes:
			if !ok {
				return errgrpc.ToGRPC(fmt.Errorf("the watcher is too slow, changes were lost: %w", errdefs.ErrResourceExhausted))
			}
			if err := stream.Send(change); err != nil {
				return err
			}
		}
	}
}

func target(r *treepb.PlaceRequest) (Key, tree.VM, error) {
	k := keyOf(r.GetFunction())
	if k.Function == "" || len(k.Function) > maxName || r.Vm == "" {
		return k, "", fmt.Errorf("a function of 1 to %d bytes and a VM are needed: %w", maxName, errdefs.ErrInvalidArgument)
	}
	return k, tree.VM(r.Vm), nil
}

func keyOf(f *treepb.Function) Key {
	return Key{Tenant: cmp.Or(f.GetTenant(), DefaultTenant), Function: f.GetId()}
}

func wireMoves(moves []tree.Move) []*treepb.Move {
	out := make([]*treepb.Move, len(moves))
	for i, m := range moves {
		out[i] = &treepb.Move{Vm: string(m.VM), Stripe: uint32(m.Stripe), OldUpstream: string(m.Old), NewUpstream: string(m.New)}
	}
	return out
}
