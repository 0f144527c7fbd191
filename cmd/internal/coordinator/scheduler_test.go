package coordinator

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

// scheduler returns a client of the scheduler's side.
func (w *world) scheduler() treepb.SchedulerClient {
	w.t.Helper()
	conn, err := w.net.Dial(home)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	return treepb.NewSchedulerClient(conn)
}

func fn(id string) *treepb.Function { return &treepb.Function{Id: id} }

func TestInsertAndDelete(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		w.serve(home, Options{Form: tree.Complete})
		s := w.scheduler()
		a, b := w.vm(1), w.vm(2)
		if _, err := s.Insert(t.Context(), &treepb.PlaceRequest{Function: fn(image), Vm: a.name}); err != nil {
			t.Fatal(err)
		}
		r, err := s.Insert(t.Context(), &treepb.PlaceRequest{Function: fn(image), Vm: b.name})
		if err != nil || len(r.Upstreams) != 1 || r.Upstreams[0].Address != a.address || len(r.Moves) != 1 || r.Moves[0].NewUpstream != a.name {
			t.Fatalf("insert: %v, %v", r, err)
		}
		synctest.Wait()
		if got := b.up(image, 0); got != a.name {
			t.Errorf("before it asks the VM is told %s", got)
		}
		w.net.Hang(home, true) // no answer is needed
		if p := b.join(t, image); p.Stripes[0].Upstream.VM != a.name {
			t.Errorf("join: %+v", p)
		}
		w.net.Hang(home, false)
		d, err := s.Delete(t.Context(), &treepb.PlaceRequest{Function: fn(image), Vm: a.name})
		if err != nil || d.Epoch <= r.Epoch || len(d.Moves) != 1 || d.Moves[0].Vm != b.name || d.Moves[0].NewUpstream != "" {
			t.Errorf("delete: %v, %v", d, err)
		}
		synctest.Wait()
		if x, y := a.up(image, 0), b.up(image, 0); x != "none" || y != "origin" {
			t.Errorf("after the delete: %s and %s", x, y)
		}
		for want, call := range map[codes.Code]func() error{
			codes.AlreadyExists: func() error {
				_, err := s.Insert(t.Context(), &treepb.PlaceRequest{Function: fn(image), Vm: b.name})
				return err
			},
			codes.FailedPrecondition: func() error {
				_, err := s.Insert(t.Context(), &treepb.PlaceRequest{Function: fn(image), Vm: "nobody"})
				return err
			},
			codes.NotFound: func() error {
				_, err := s.Delete(t.Context(), &treepb.PlaceRequest{Function: fn(image), Vm: a.name})
				return err
			},
			codes.InvalidArgument: func() error {
				_, err := s.Insert(t.Context(), &treepb.PlaceRequest{Vm: a.name})
				return err
			},
			codes.ResourceExhausted: func() error {
				for i := range 20 {
					if _, err := s.Insert(t.Context(), &treepb.PlaceRequest{Function: fn(fmt.Sprint(i)), Vm: b.name}); err != nil {
						return err
					}
				}
				return nil
			},
		} {
			if err := call(); status.Code(err) != want {
				t.Errorf("%v, want %v", err, want)
			}
		}
	})
}

func TestGetTreeAndListTrees(t *testing.T) {
	for form, depth := range map[tree.Form]uint32{tree.Complete: 3, tree.Striped: 4, tree.Rotate: 3} {
		t.Run(string(form), func(t *testing.T) {
			inBubble(t, func(w *world) {
				t := w.t
				w.serve(home, Options{Form: form})
				s := w.scheduler()
				vms := w.burst(9, func(int) uint64 { return 0 })
				vms[3].join(t, "other")
				vms[4].mu.Lock()
				vms[4].load.Relayed, vms[4].load.Read, vms[4].load.Children = 7, 8, 2
				vms[4].mu.Unlock()
				time.Sleep(time.Second)
				got, err := s.GetTree(t.Context(), &treepb.GetTreeRequest{Function: fn(image)})
				if err != nil || len(got.Nodes) != 9 || got.Form != string(form) || int(got.Stripes) != len(got.Nodes[0].Upstreams) {
					t.Fatalf("%v, %v", got, err)
				}
				deepest := uint32(0)
				for _, n := range got.Nodes {
					for i, up := range n.Upstreams {
						want := uint32(0)
						if u := nodeOf(got, up); u != nil {
							want = u.Depths[i] + 1
						}
						if n.Depths[i] != want {
							t.Errorf("%s is at %d of stripe %d, want %d", n.Peer.Vm, n.Depths[i], i, want)
						}
						deepest = max(deepest, want)
					}
				}
				if n := nodeOf(got, vms[4].name); n.RelayedBytes != 7 || n.ReadBytes != 8 || n.Children != 2 || n.Peer.Address != vms[4].address {
					t.Errorf("node %v", n)
				}
				if deepest > depth {
					t.Errorf("depth %d", deepest)
				}
				list, err := s.ListTrees(t.Context(), &treepb.ListTreesRequest{})
				if err != nil || len(list.Trees) != 2 || list.Trees[0].Function.Id != "other" || list.Trees[1].Vms != 9 || list.Trees[1].Depth != deepest || list.Trees[1].Epoch != got.Epoch {
					t.Errorf("%v, %v", list, err)
				}
				if list, err = s.ListTrees(t.Context(), &treepb.ListTreesRequest{Tenant: "stranger"}); err != nil || len(list.Trees) != 0 {
					t.Errorf("another tenant's: %v, %v", list, err)
				}
				if _, err := s.GetTree(t.Context(), &treepb.GetTreeRequest{Function: &treepb.Function{Tenant: "x", Id: image}}); status.Code(err) != codes.NotFound {
					t.Errorf("another tenant's: %v", err)
				}
				if _, err := s.GetTree(t.Context(), &treepb.GetTreeRequest{}); status.Code(err) != codes.NotFound {
					t.Errorf("no function: %v", err)
				}
			})
		})
	}
}

// watch returns what a watch says, once it is open.
func (w *world) watch(f *treepb.Function) (next func() (*treepb.Change, error), cancel func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	w.t.Cleanup(cancel)
	s, err := w.scheduler().Watch(ctx, &treepb.WatchRequest{Function: f})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := s.Header(); err != nil {
		w.t.Fatal(err)
	}
	return s.Recv, cancel
}

func TestWatch(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		c := w.serve(home, Options{Form: tree.Complete})
		one, cancel := w.watch(fn(image))
		every, _ := w.watch(nil)
		a, b := w.vm(1), w.vm(2)
		a.join(t, image)
		b.join(t, image)
		a.Leave(image)
		a.join(t, "other")
		epoch := uint64(0)
		for i, want := range []*treepb.Change{
			{Joined: a.name, Moves: []*treepb.Move{{Vm: a.name}}},
			{Joined: b.name, Moves: []*treepb.Move{{Vm: b.name, NewUpstream: a.name}}},
			{Left: a.name, Moves: []*treepb.Move{{Vm: b.name, OldUpstream: a.name}}},
		} {
			for who, next := range map[string]func() (*treepb.Change, error){"one": one, "every": every} {
				got, err := next()
				if err != nil || got.Function.Id != image || got.Joined != want.Joined || got.Left != want.Left || fmt.Sprint(got.Moves) != fmt.Sprint(want.Moves) || got.Epoch < epoch {
					t.Fatalf("change %d of %s: %v, %v", i, who, got, err)
				}
				epoch = got.Epoch
			}
		}
		if got, err := every(); err != nil || got.Function.Id != "other" {
			t.Errorf("%v, %v", got, err)
		}
		cancel()
		synctest.Wait()
		c.watches.mu.Lock()
		if n := len(c.watches.watchers); n != 1 {
			t.Errorf("%d watches after one has gone", n)
		}
		c.watches.mu.Unlock()
		c.close()
		if _, err := every(); status.Code(err) != codes.Unavailable {
			t.Errorf("the coordinator stops: %v", err)
		}
	})
}

func TestWatchThatIsTooSlowIsToldSo(t *testing.T) {
	var w watches
	slow, fast := w.open(nil), w.open(fn(image))
	f := newFleet(t, Options{})
	g := f.c.grove(Key{DefaultTenant, image}, time.Now())
	for range backlog + 1 {
		w.publish(g, nil, "a", "")
		<-fast.changes
	}
	for range backlog {
		<-slow.changes
	}
	if _, ok := <-slow.changes; ok {
		t.Error("a watch with a gap goes on")
	}
	w.publish(g, nil, "b", "")
	if c := <-fast.changes; c.Joined != "b" {
		t.Errorf("the other watch got %v", c)
	}
	w.close(slow)
	w.close(fast)
}
