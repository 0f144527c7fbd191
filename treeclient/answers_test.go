package treeclient_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/treeclient"
	"github.com/faasnet/faasnet/treeclient/treepb"
	"github.com/faasnet/faasnet/treeclient/treetest"
)

func refusal(f string, again treepb.Refusal_Again) *treepb.ToVM {
	return &treepb.ToVM{Message: &treepb.ToVM_Refusal{Refusal: &treepb.Refusal{Function: f, Reason: "because", Again: again}}}
}

// refusing is a coordinator that refuses the first joins of a VM.
func refusing(t *testing.T, w *world, heard *said, first int, again treepb.Refusal_Again) *treetest.Coordinator {
	t.Helper()
	c := w.coordinator()
	c.Said = func(vm string, m *treepb.FromVM) bool {
		heard.hear(vm, m)
		if j := m.GetJoin(); j != nil && len(joins(heard)) <= first {
			if err := c.Send(vm, refusal(j.Function, again)); err != nil {
				t.Error(err)
			}
			return false
		}
		return true
	}
	w.serve(home, c)
	return c
}

func TestRefused(t *testing.T) {
	t.Run("later", func(t *testing.T) {
		inBubble(t, func(w *world) {
			t := w.t
			var heard said
			refusing(t, w, &heard, 2, treepb.Refusal_AGAIN_LATER)
			v := w.vm("a")
			for range 3 {
				if _, err := v.Join(t.Context(), image); !errdefs.IsFailedPrecondition(err) {
					t.Fatalf("join: %v", err)
				}
			}
			if n := len(joins(&heard)); n != 1 {
				t.Errorf("asked %d times at once", n)
			}
			time.Sleep(25 * time.Second)
			if got := v.at(image); got != "origin" || len(joins(&heard)) != 3 {
				t.Errorf("later: %s after %d joins", got, len(joins(&heard)))
			}
		})
	})
	t.Run("never", func(t *testing.T) {
		inBubble(t, func(w *world) {
			t := w.t
			var heard said
			refusing(t, w, &heard, 1, treepb.Refusal_AGAIN_NEVER)
			v := w.vm("a")
			if _, err := v.Join(t.Context(), image); !errdefs.IsFailedPrecondition(err) {
				t.Fatalf("join: %v", err)
			}
			time.Sleep(10 * time.Minute)
			if n := len(joins(&heard)); n != 1 || len(v.Functions()) != 0 {
				t.Errorf("asked %d times, functions %q", n, v.Functions())
			}
			if _, err := v.Join(t.Context(), image); err != nil {
				t.Errorf("the next wish: %v", err)
			}
		})
	})
	t.Run("while idle", func(t *testing.T) {
		inBubble(t, func(w *world) {
			t := w.t
			var heard said
			c := refusing(t, w, &heard, 0, 0)
			v := w.vm("a")
			v.Join(t.Context(), image)
			c.Send("a", refusal(image, treepb.Refusal_AGAIN_ACTIVE))
			time.Sleep(10 * time.Minute)
			if got := v.at(image); got != "none" || len(joins(&heard)) != 1 {
				t.Fatalf("idle: %s after %d joins", got, len(joins(&heard)))
			}
			v.mu.Lock()
			v.load.Read++
			v.mu.Unlock()
			time.Sleep(time.Second)
			if got := v.at(image); got != "origin" {
				t.Errorf("active again: %s", got)
			}
			c.Send("a", refusal(image, treepb.Refusal_AGAIN_ACTIVE))
			synctest.Wait()
			if p, err := v.Join(t.Context(), image); err != nil || upstream(p) != "origin" {
				t.Errorf("a new container of an idle VM: %+v, %v", p, err)
			}
		})
	})
	t.Run("wait", func(t *testing.T) {
		inBubble(t, func(w *world) {
			t := w.t
			var heard said
			c := refusing(t, w, &heard, 0, 0)
			v := w.vm("a")
			v.Join(t.Context(), image)
			c.Send("a", refusal(image, treepb.Refusal_AGAIN_WAIT))
			time.Sleep(time.Minute)
			if got := v.at(image); got != "none" || len(joins(&heard)) != 1 {
				t.Errorf("waiting: %s after %d joins", got, len(joins(&heard)))
			}
			c.Assign("a", image, &treepb.Stripe{Upstream: &treepb.Peer{Vm: "z", Address: "10.0.0.9:1"}})
			synctest.Wait()
			if got := v.at(image); got != "z" {
				t.Errorf("placed again: %s", got)
			}
		})
	})
}

func TestScheduler(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		var heard said
		c := w.coordinator()
		c.Said = heard.hear
		w.serve(home, c)
		v := w.vm("a")
		insert := func(f string, inserted bool) {
			c.Send("a", &treepb.ToVM{Message: &treepb.ToVM_Assignment{Assignment: &treepb.Assignment{
				Function: f, Inserted: inserted, Stripes: []*treepb.Stripe{{Upstream: &treepb.Peer{Vm: "z", Address: "10.0.0.9:1"}}},
			}}})
		}
		insert(image, true)
		insert("left long ago", false)
		synctest.Wait()
		if want := []string{image + " none>z"}; !slices.Equal(v.told(), want) {
			t.Fatalf("told %q, want %q", v.told(), want)
		}
		w.net.Hang(home, true)
		if p, err := v.Join(t.Context(), image); err != nil || upstream(p) != "z" {
			t.Errorf("join: %+v, %v", p, err)
		}
		w.net.Hang(home, false)
		synctest.Wait()
		if n := len(joins(&heard)); n != 1 {
			t.Errorf("%d joins: the coordinator must learn that the VM wants it", n)
		}
		for i := range 30 {
			insert(fmt.Sprint("f", i), true)
		}
		synctest.Wait()
		if n := len(v.Functions()); n != 20 {
			t.Errorf("a coordinator put the VM in %d functions", n)
		}
	})
}

func TestAtMost20FunctionsOverAllCoordinators(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		var heard said
		c := w.coordinator()
		c.Said = heard.hear
		w.serve(home, c)
		v := w.vm("a")
		for i := range 20 {
			if _, err := v.Join(t.Context(), fmt.Sprint("f", i)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := v.Join(t.Context(), image); !errdefs.IsFailedPrecondition(err) {
			t.Fatalf("the 21st: %v", err)
		}
		if n := len(joins(&heard)); n != 20 {
			t.Errorf("%d joins", n)
		}
		v.Leave("f7")
		time.Sleep(time.Second)
		if got := v.at(image); got != "origin" {
			t.Errorf("there is room now: %s", got)
		}
	})
}

func TestChangesAreToldInOrderAndFoldedWhileTheListenerIsBusy(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		c := w.coordinator()
		w.serve(home, c)
		busy := make(chan struct{})
		var told []string
		v := w.vm("a", func(o *treeclient.Options) {
			o.Changed = func(_ string, before, now treeclient.Place) {
				told = append(told, upstream(before)+">"+upstream(now))
				<-busy
			}
		})
		assign := func(up string) {
			c.Assign("a", image, &treepb.Stripe{Upstream: &treepb.Peer{Vm: up, Address: "10.0.0.9:1"}})
			synctest.Wait()
		}
		if _, err := v.Join(t.Context(), image); !errdefs.IsUnavailable(err) {
			t.Errorf("the listener has not been told: %v", err)
		}
		for i := range 1000 {
			assign(fmt.Sprint("u", i))
		}
		close(busy)
		synctest.Wait()
		if want := []string{"none>origin", "origin>u999"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}
