package treeclient_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/peer/identity"
	"github.com/faasnet/faasnet/treeclient"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

const image = "sha256:f"

func TestJoinAndLeave(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		c := w.coordinator()
		w.serve(home, c)
		a, b := w.vm("a"), w.vm("b")
		p, err := a.Join(t.Context(), image)
		if err != nil || upstream(p) != "origin" || len(a.told()) != 1 {
			t.Fatalf("first: %+v, %v, told %q", p, err, a.told())
		}
		if p, err = b.Join(t.Context(), image); err != nil || upstream(p) != "a" || p.Stripes[0].Upstream.Address == "" {
			t.Fatalf("second: %+v, %v", p, err)
		}
		tenant, keys := b.Identity()
		claims, err := identity.Verifier{Keys: keys}.Verify(p.Token, identity.Read)
		if err != nil || claims.VM != "b" || claims.Function != image || claims.Tenant != tenant {
			t.Errorf("token: %+v, %v", claims, err)
		}
		a.Leave(image)
		a.Leave(image)
		synctest.Wait()
		if got := b.at(image); got != "origin" {
			t.Errorf("the root has left and b reads from %s", got)
		}
		if _, ok := a.Place(image); ok {
			t.Error("a has left and has a place")
		}
		if want := []string{image + " none>a", image + " a>origin"}; !slices.Equal(b.told(), want) {
			t.Errorf("b was told %q, want %q", b.told(), want)
		}
		b.stop()
		synctest.Wait()
		if p, err := a.Join(t.Context(), image); err != nil || upstream(p) != "origin" {
			t.Errorf("everybody has gone: %+v, %v", p, err)
		}
	})
}

func TestCO06_AskedOnceNotPerBlock(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		var heard said
		c := w.coordinator()
		c.Said = heard.hear
		w.serve(home, c)
		v := w.vm("a")
		for range 1000 { // as many blocks
			if _, err := v.Join(t.Context(), image); err != nil {
				t.Fatal(err)
			}
			if _, ok := v.Place(image); !ok {
				t.Fatal("no place")
			}
		}
		if n := len(joins(&heard)); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
}

func TestCO07_CoordinatorAwayOrSlow(t *testing.T) {
	for name, c := range map[string]struct {
		set   func(*world)
		first time.Duration // of the first join
	}{
		"CO-07 refused": {func(*world) {}, 0},
		"CO-07 hangs": {func(w *world) {
			w.serve(home, w.coordinator())
			w.net.Hang(home, true)
		}, 500 * time.Millisecond},
		"CO-07 delay 10 s": {func(w *world) {
			w.serve(home, w.coordinator())
			w.net.Delay(home, 10*time.Second)
		}, 500 * time.Millisecond},
		"CO-07 no answer to a join": {func(w *world) {
			c := w.coordinator()
			c.Said = func(_ string, m *treepb.FromVM) bool { return m.GetJoin() == nil }
			w.serve(home, c)
		}, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				t := w.t
				c.set(w)
				v := w.vm("a")
				synctest.Wait()
				d := took(func() {
					if _, err := v.Join(t.Context(), image); !errdefs.IsUnavailable(err) {
						t.Errorf("join: %v", err)
					}
				})
				if d != c.first {
					t.Errorf("the first start waits %v, want %v", d, c.first)
				}
				d = took(func() {
					for i := range 20 {
						if _, err := v.Join(t.Context(), fmt.Sprint(i)); !errdefs.IsUnavailable(err) {
							t.Errorf("join: %v", err)
						}
					}
				})
				if d != 0 {
					t.Errorf("twenty more wait %v: the penalty comes once", d)
				}
			})
		})
	}
}

func TestCO07_LateAnswers(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		c := w.coordinator()
		w.serve(home, c)
		v := w.vm("a")
		synctest.Wait()
		w.net.Delay(home, time.Second)
		if _, err := v.Join(t.Context(), image); !errdefs.IsUnavailable(err) {
			t.Fatalf("join: %v", err)
		}
		if _, err := v.Join(t.Context(), "left"); !errdefs.IsUnavailable(err) {
			t.Fatalf("join: %v", err)
		}
		v.Leave("left")
		time.Sleep(3 * time.Second)
		if got := v.at(image); got != "origin" {
			t.Errorf("the late place is not taken: %s", got)
		}
		if _, ok := v.Place("left"); ok || slices.ContainsFunc(v.told(), func(s string) bool { return s == "left none>origin" }) {
			t.Errorf("a place in a function that was left is taken: %q", v.told())
		}
		w.net.Delay(home, 0)
		time.Sleep(2 * time.Second) // what is on its way
		if d := took(func() { v.Join(t.Context(), "next") }); d > 10*time.Millisecond {
			t.Errorf("after an answer, a join waits %v", d)
		}
	})
}

func TestJoinIsCancelled(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		w.serve(home, w.coordinator())
		w.net.Hang(home, true)
		v := w.vm("a")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := v.Join(ctx, image); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("join: %v", err)
		}
	})
}

func TestLeaveEndsAWaitingJoin(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		w.serve(home, w.coordinator())
		w.net.Hang(home, true)
		v := w.vm("a")
		synctest.Wait()
		done := make(chan error)
		go func() { _, err := v.Join(t.Context(), image); done <- err }()
		synctest.Wait()
		v.Leave(image)
		if d := took(func() {
			if err := <-done; !errdefs.IsFailedPrecondition(err) {
				t.Errorf("join: %v", err)
			}
		}); d != 0 {
			t.Errorf("waits %v", d)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	for name, o := range map[string]treeclient.Options{
		"no coordinator": {VM: "a", Address: "10.0.0.1:1"},
		"no VM":          {Coordinators: []string{home}, Address: "10.0.0.1:1"},
		"no address":     {Coordinators: []string{home}, VM: "a"},
	} {
		if _, err := treeclient.New(o); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRunTwiceIsRefused(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		w.serve(home, w.coordinator())
		v := w.vm("a")
		synctest.Wait()
		if err := v.Run(t.Context()); !errdefs.IsFailedPrecondition(err) {
			t.Errorf("second run: %v", err)
		}
	})
}
