package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/treeclient"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

// shape is whom each VM reads each stripe from.
func shape(t *treepb.Tree) map[string]string {
	s := map[string]string{}
	for _, n := range t.GetNodes() {
		s[n.Peer.Vm] = fmt.Sprint(n.Upstreams)
	}
	return s
}

// burst is n VMs in one function, each with blocks as held says.
func (w *world) burst(n int, held func(i int) uint64) []*vm {
	vms := make([]*vm, n)
	for i := range vms {
		vms[i] = w.vm(i)
		vms[i].join(w.t, image)
	}
	for i, v := range vms {
		v.mu.Lock()
		v.held = held(i)
		v.mu.Unlock()
	}
	synctest.Wait() // all know their places
	return vms
}

func TestCO03_RestartWithEmptyState(t *testing.T) {
	for _, form := range []tree.Form{tree.Striped, tree.Complete, tree.Rotate} {
		t.Run(string(form), func(t *testing.T) {
			inBubble(t, func(w *world) {
				t := w.t
				c := w.serve(home, Options{Form: form})
				vms := w.burst(8, func(i int) uint64 { return 500 - uint64(i) }) // in the midst of a download
				before := shape(c.tree(image))
				c.kill()
				for range 30 {
					time.Sleep(100 * time.Millisecond)
					for _, v := range vms {
						if p, ok := v.Place(image); !ok || fmt.Sprint(names(p)) != before[v.name] {
							t.Fatalf("%s reads from %v, want %s", v.name, names(p), before[v.name])
						}
					}
				}
				c = w.serve(home, Options{Form: form})
				back := time.Now()
				for c.tree(image) == nil || len(c.tree(image).Nodes) < len(vms) {
					if time.Sleep(10 * time.Millisecond); time.Since(back) > 5*time.Second {
						t.Fatalf("after 5 s: %v", shape(c.tree(image)))
					}
					for _, v := range vms { // nobody loses its upstream meanwhile
						if p, ok := v.Place(image); !ok || form != tree.Rotate && fmt.Sprint(names(p)) != before[v.name] {
							t.Fatalf("%s reads from %v, want %s", v.name, names(p), before[v.name])
						}
					}
				}
				t.Logf("all are back after %v", time.Since(back))
				if after := shape(c.tree(image)); form != tree.Rotate && !maps.Equal(after, before) {
					t.Errorf("the tree was %v and is %v", before, after)
				}
			})
		})
	}
}

func names(p treeclient.Place) (up []string) {
	for _, s := range p.Stripes {
		up = append(up, s.Upstream.VM)
	}
	return up
}

func TestCO03_ThoseWithMostBlocksAreNearTheRoot(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		c := w.serve(home, Options{Form: tree.Complete})
		vms := w.burst(8, func(i int) uint64 { return uint64(i) * 100 }) // the last of the tree has most
		c.kill()
		time.Sleep(3 * time.Second)
		c = w.serve(home, Options{Form: tree.Complete})
		cold := w.vm(100)
		if p := cold.join(t, image); p.Stripes[0].Upstream.VM != "" {
			t.Errorf("one that is new waits for nobody: %+v", p)
		}
		time.Sleep(5 * time.Second)
		tr := c.tree(image)
		if len(tr.GetNodes()) != 9 {
			t.Fatalf("%v", tr)
		}
		for _, n := range tr.Nodes {
			up := nodeOf(tr, n.Upstreams[0])
			if up != nil && up.Blocks+100 < n.Blocks {
				t.Errorf("%s with %d blocks reads from %s with %d", n.Peer.Vm, n.Blocks, up.Peer.Vm, up.Blocks)
			}
		}
		if root := tr.Nodes[0].Peer.Vm; root != vms[7].name {
			t.Errorf("the root is %s", root)
		}
		if got := cold.up(image, 0); got == "origin" {
			t.Error("the new one, which has nothing, is the root")
		}
	})
}

func TestCO03_TheDeadAreNotAwaitedForLong(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		c := w.serve(home, Options{Form: tree.Complete})
		vms := w.burst(7, func(int) uint64 { return 10 })
		c.kill()
		vms[0].stop() // the root goes while there is no coordinator
		c = w.serve(home, Options{Form: tree.Complete})
		time.Sleep(5 * time.Second)
		if tr := c.tree(image); len(tr.GetNodes()) != 6 || nodeOf(tr, vms[0].name) != nil {
			t.Errorf("%v", shape(tr))
		}
		for _, v := range vms[1:] {
			if got := v.up(image, 0); got == vms[0].name {
				t.Errorf("%s reads from the dead", v.name)
			}
		}
	})
}

func TestVMThatComesBackToALiveTreeIsPlacedLast(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		c := w.serve(home, Options{Form: tree.Complete})
		vms := w.burst(3, func(int) uint64 { return 10 })
		time.Sleep(time.Minute)
		w.net.Cut(home)
		synctest.Wait()
		time.Sleep(10 * time.Second)
		if tr := c.tree(image); len(tr.GetNodes()) != len(vms) {
			t.Errorf("%v", shape(tr))
		}
	})
}

func TestStopKeepsPlaces(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		c := w.serve(home, Options{Form: tree.Complete})
		vms := w.burst(7, func(int) uint64 { return 10 })
		before := shape(c.tree(image))
		c.close()
		synctest.Wait()
		for _, v := range vms {
			if p, ok := v.Place(image); !ok || fmt.Sprint(names(p)) != before[v.name] {
				t.Errorf("%s reads from %v, want %s", v.name, names(p), before[v.name])
			}
		}
		if _, err := vms[0].Join(t.Context(), "new"); !errdefs.IsUnavailable(err) {
			t.Errorf("join: %v", err)
		}
		if _, err := c.greet(&treepb.Hello{Protocol: 1, Vm: "late", Address: "10.0.0.1:1"}, "", func(error) {}); !errdefs.IsUnavailable(err) {
			t.Errorf("hello: %v", err)
		}
	})
}

func TestRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, vms := seated(t, 7)
		k := Key{DefaultTenant, image}
		kept := f.c.Tree(k)

		f2 := newFleet(t, Options{Form: tree.Complete})
		f2.c.Restore(k, kept)
		if g := f2.c.groves[k]; g == nil || g.epoch() <= kept.Epoch {
			t.Fatal("the epoch is not beyond the one that was kept")
		}
		for i := range slices.Backward(vms) { // none of them knows that it had a place
			if i != 2 {
				f2.join(f2.attend(vms[i].name), image, 10)
			}
		}
		late := f2.attend("late")
		f2.join(late, image, 0)
		if got := late.upstream(image); got != "origin" {
			t.Errorf("one that is new reads from %s", got)
		}
		f2.pass(DefaultSettle + 100*time.Millisecond)
		want := all(vms, 2)
		want["late"] = true
		f2.check(image, want)
		if got := f2.vms["vm1"].upstream(image); got != "vm0" {
			t.Errorf("vm1 reads from %s, and did from vm0", got)
		}
		// Nobody comes.
		f3 := newFleet(t, Options{Form: tree.Complete})
		f3.c.Restore(k, kept)
		f3.pass(DefaultSettle + 100*time.Millisecond)
		if len(f3.c.groves) != 0 {
			t.Error("a tree without VMs")
		}
		// Nothing that is kept may harm.
		for what, tr := range map[string]*treepb.Tree{
			"empty":          {},
			"another form":   {Nodes: []*treepb.Node{{Peer: &treepb.Peer{Vm: "x"}, Upstreams: []string{"", ""}}}},
			"no name":        {Nodes: []*treepb.Node{{Upstreams: []string{""}}}},
			"the last epoch": {Epoch: 1<<64 - 1},
		} {
			f3.c.Restore(k, tr)
			if len(f3.c.groves) != 0 {
				t.Errorf("%s: a tree", what)
			}
		}
		m := f3.attend("a")
		for what, epoch := range map[string]uint64{"last": 1<<64 - 1, "late": clock(time.Now().Add(2 * ahead))} {
			f3.hear(m, &treepb.FromVM{Message: &treepb.FromVM_Join{Join: &treepb.Join{Function: what, Epoch: epoch}}})
			f3.pass(time.Second + DefaultSettle)
			if p := m.places[what]; p == nil || p.Epoch > clock(time.Now()) || p.Epoch < clock(time.Now().Add(-ahead)) {
				t.Errorf("a VM with an epoch of its own: %v", p)
			}
		}
	})
}
