package coordinator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"google.golang.org/protobuf/types/known/timestamppb"

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
	c, now := f.c, time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sessions[member{k.Tenant, vm}]
	switch {
	case s == nil:
		return nil, errgrpc.ToGRPC(fmt.Errorf("VM %q does not attend: %w", vm, errdefs.ErrFailedPrecondition))
	case len(s.functions) >= c.opts.MaxFunctions && !s.functions[k.Function]:
		return nil, errgrpc.ToGRPC(fmt.Errorf("VM %q is in %d functions: %w", vm, len(s.functions), errdefs.ErrResourceExhausted))
	}
	if owner := c.opts.Journal.Owner(k); owner != "" {
		return nil, errgrpc.ToGRPC(fmt.Errorf("coordinator %s keeps %s: %w", owner, k.Function, errdefs.ErrUnavailable))
	}
	g := c.grove(k, now)
	moves, err := c.place(g, vm, 0, now)
	if err != nil {
		return nil, errgrpc.ToGRPC(err)
	}
	s.functions[k.Function] = true
	s.busy = now
	res := &treepb.InsertResponse{Epoch: g.epoch(), Moves: wireMoves(moves)}
	for i := range g.tree.Stripes() {
		up := c.peerOf(k.Tenant, g.tree.Upstream(vm, i))
		if up == nil {
			up = &treepb.Peer{}
		}
		res.Upstreams = append(res.Upstreams, up)
	}
	return res, nil
}

func (f scheduler) Delete(_ context.Context, r *treepb.PlaceRequest) (*treepb.DeleteResponse, error) {
	k, vm, err := target(r)
	if err != nil {
		return nil, errgrpc.ToGRPC(err)
	}
	c := f.c
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groves[k]
	if g == nil || !g.tree.Has(vm) {
		return nil, errgrpc.ToGRPC(fmt.Errorf("VM %q has no place in %s: %w", vm, k.Function, errdefs.ErrNotFound))
	}
	moves := c.displace(g, vm, time.Now())
	if s := c.sessions[member{k.Tenant, vm}]; s != nil {
		delete(s.functions, k.Function)
		s.refuse(k.Function, "taken out by the scheduler", false)
	}
	return &treepb.DeleteResponse{Epoch: g.epoch(), Moves: wireMoves(moves)}, nil
}

func (f scheduler) GetTree(_ context.Context, r *treepb.GetTreeRequest) (*treepb.Tree, error) {
	c := f.c
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groves[keyOf(r.GetFunction())]
	if g == nil {
		return nil, errgrpc.ToGRPC(fmt.Errorf("no tree of %q: %w", r.GetFunction().GetId(), errdefs.ErrNotFound))
	}
	t := &treepb.Tree{Function: r.Function, Epoch: g.epoch(), Form: string(c.opts.Form), Stripes: uint32(g.tree.Stripes())}
	for vm := range g.tree.All() {
		n := &treepb.Node{Peer: c.peerOf(g.key.Tenant, vm), Blocks: g.members[vm].blocks, Joined: timestamppb.New(g.members[vm].joined)}
		for i := range g.tree.Stripes() {
			n.Upstreams = append(n.Upstreams, string(g.tree.Upstream(vm, i)))
			n.Depths = append(n.Depths, uint32(len(tree.Ancestors(g.tree, vm, i))))
		}
		t.Nodes = append(t.Nodes, n)
	}
	slices.SortFunc(t.Nodes, func(a, b *treepb.Node) int {
		return cmp.Or(slices.Compare(a.Depths, b.Depths), cmp.Compare(a.Peer.GetVm(), b.Peer.GetVm()))
	})
	return t, nil
}

func (f scheduler) ListTrees(_ context.Context, r *treepb.ListTreesRequest) (*treepb.ListTreesResponse, error) {
	c := f.c
	c.mu.Lock()
	defer c.mu.Unlock()
	res := &treepb.ListTreesResponse{}
	for k, g := range c.groves {
		if r.Tenant != "" && r.Tenant != k.Tenant {
			continue
		}
		sum := &treepb.Summary{Function: &treepb.Function{Tenant: k.Tenant, Id: k.Function}, Vms: uint32(g.tree.Len()), Epoch: g.epoch()}
		for vm := range g.tree.All() {
			for i := range g.tree.Stripes() {
				sum.Depth = max(sum.Depth, uint32(len(tree.Ancestors(g.tree, vm, i))))
			}
		}
		res.Trees = append(res.Trees, sum)
	}
	slices.SortFunc(res.Trees, func(a, b *treepb.Summary) int {
		return cmp.Or(cmp.Compare(a.Function.Tenant, b.Function.Tenant), cmp.Compare(a.Function.Id, b.Function.Id))
	})
	return res, nil
}

func (f scheduler) Watch(r *treepb.WatchRequest, stream treepb.Scheduler_WatchServer) error {
	w := f.c.watches.open(r.Function)
	defer f.c.watches.close(w)
	for {
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
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
	if k.Function == "" || len(k.Function) > maxFunctionName || r.Vm == "" {
		return k, "", fmt.Errorf("a function of 1 to %d bytes and a VM are needed: %w", maxFunctionName, errdefs.ErrInvalidArgument)
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
