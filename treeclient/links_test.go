package treeclient_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/sirupsen/logrus"

	"github.com/faasnet/faasnet/treeclient"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

func redirect(f, address string) *treepb.ToVM {
	return &treepb.ToVM{Message: &treepb.ToVM_Redirect{Redirect: &treepb.Redirect{Function: f, Address: address}}}
}

// redirects makes a coordinator send every join on.
func redirects(t *testing.T, w *world, heard *said, to string) func(string, *treepb.FromVM) bool {
	t.Helper()
	c := w.coordinator()
	c.Said = func(vm string, m *treepb.FromVM) bool {
		heard.hear(vm, m)
		if j := m.GetJoin(); j != nil {
			if err := c.Send(vm, redirect(j.Function, to)); err != nil {
				t.Error(err)
			}
			return false
		}
		return true
	}
	w.serve(home, c)
	return c.Said
}

func TestCO03_CoordinatorRestarts(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		stop := w.serve(home, w.coordinator())
		vms := make([]*vm, 8)
		for i := range vms {
			vms[i] = w.vm(fmt.Sprint("vm", i))
			vms[i].Join(t.Context(), image)
		}
		synctest.Wait()
		before := make([]string, len(vms))
		for i, v := range vms {
			before[i] = v.at(image)
		}
		stop()
		time.Sleep(3 * time.Second)
		for i, v := range vms {
			if got := v.at(image); got != before[i] {
				t.Errorf("without a coordinator %d reads from %s, not %s", i, got, before[i])
			}
			if p, err := v.Join(t.Context(), image); err != nil || upstream(p) != before[i] {
				t.Errorf("without a coordinator a join gives %+v, %v", p, err)
			}
		}
		if d := took(func() {
			if _, err := vms[0].Join(t.Context(), "new"); !errdefs.IsUnavailable(err) {
				t.Errorf("a new function without a coordinator: %v", err)
			}
		}); d != 0 {
			t.Errorf("it waits %v", d)
		}
		var heard said
		back := w.coordinator()
		back.Said = heard.hear
		w.serve(home, back)
		time.Sleep(2100 * time.Millisecond)
		again := joins(&heard)
		if len(again) != len(vms)+1 {
			t.Fatalf("%d joins 2.1 s after the restart, want %d and the new function", len(again), len(vms))
		}
		for _, j := range again {
			if j.Function == image && (j.Epoch == 0 || len(j.Upstreams) != 1) {
				t.Errorf("a join that does not tell the old place: %v", j)
			}
		}
		if vms[0].at("new") != "origin" {
			t.Error("the join of the new function did not go on")
		}
	})
}

func TestCoordinatorVanishesSilently(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		w.serve(home, w.coordinator())
		w.serve(other, w.coordinator())
		v := w.vm("a", func(o *treeclient.Options) { o.Coordinators = []string{home, other} })
		v.Join(t.Context(), image)
		w.net.Hang(home, true)
		time.Sleep(15 * time.Second)
		if n := w.net.Conns(other); n != 1 {
			t.Errorf("%d connections to the other coordinator", n)
		}
		if p, err := v.Join(t.Context(), "new"); err != nil || upstream(p) != "origin" {
			t.Errorf("join: %+v, %v", p, err)
		}
		w.net.Cut(home)
	})
}

func TestAnotherCoordinatorIsAskedAtOnceWhenOneDies(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		stop := w.serve(home, w.coordinator())
		var heard said
		c := w.coordinator()
		c.Said = heard.hear
		w.serve(other, c)
		v := w.vm("a", func(o *treeclient.Options) { o.Coordinators = []string{home, other} })
		v.Join(t.Context(), image)
		time.Sleep(3 * time.Second)
		stop()
		time.Sleep(time.Second)
		if got := joins(&heard); len(got) != 1 || got[0].Epoch == 0 || len(got[0].Unreachable) != 1 || got[0].Unreachable[0] != home {
			t.Errorf("joins at the other one: %v", got)
		}
	})
}

func TestAllCoordinatorsDeadIsNoStorm(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		tries := 0
		v := w.vm("a", func(o *treeclient.Options) {
			o.Coordinators = []string{home, other}
			o.Credential = func() (string, error) { tries++; return "", nil }
		})
		v.Join(t.Context(), image)
		time.Sleep(time.Minute)
		v.stop()
		if tries < 25 || tries > 80 {
			t.Errorf("%d tries in a minute, want one every 1 to 2 s", tries)
		}
	})
}

func TestRedirect(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		var heard, there said
		redirects(t, w, &heard, other)
		c := w.coordinator()
		c.Said = there.hear
		w.serve(other, c)
		v := w.vm("a")
		if p, err := v.Join(t.Context(), image); err != nil || upstream(p) != "origin" {
			t.Fatalf("join: %+v, %v", p, err)
		}
		_, keys := v.Identity()
		if len(keys) != 2 {
			t.Errorf("%d token keys of two coordinators", len(keys))
		}
		if n := w.net.Conns(home) + w.net.Conns(other); n != 2 {
			t.Errorf("%d connections", n)
		}
		v.Leave(image)
		time.Sleep(time.Second)
		if n := w.net.Conns(other); n != 0 {
			t.Errorf("%d connections to a coordinator that keeps nothing of ours", n)
		}
		if n := w.net.Conns(home); n != 1 {
			t.Errorf("%d connections to the first coordinator", n)
		}
	})
}

func TestRedirectToTheDeadIsNoStormAndHeals(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		var heard said
		redirects(t, w, &heard, other)
		v := w.vm("a")
		if _, err := v.Join(t.Context(), image); !errdefs.IsUnavailable(err) {
			t.Fatalf("join: %v", err)
		}
		time.Sleep(time.Minute)
		all := joins(&heard)
		if n := len(all); n < 15 || n > 70 {
			t.Errorf("%d joins in a minute", n)
		}
		if last := all[len(all)-1]; len(last.Unreachable) != 1 || last.Unreachable[0] != other {
			t.Errorf("the coordinator is not told who is dead: %v", last)
		}
		w.serve(other, w.coordinator())
		time.Sleep(5 * time.Second)
		if got := v.at(image); got != "origin" {
			t.Errorf("5 s after the dead one is back: %s", got)
		}
	})
}

func TestRedirectInACircleIsNoStorm(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		var here, there said
		redirects(t, w, &here, other)
		c := w.coordinator()
		c.Said = func(vm string, m *treepb.FromVM) bool {
			there.hear(vm, m)
			if j := m.GetJoin(); j != nil {
				c.Send(vm, redirect(j.Function, home))
				return false
			}
			return true
		}
		w.serve(other, c)
		v := w.vm("a")
		v.Join(t.Context(), image)
		time.Sleep(time.Minute)
		if n := len(joins(&here)) + len(joins(&there)); n < 20 || n > 70 {
			t.Errorf("%d joins in a minute", n)
		}
	})
}

func TestFirstMessageMustBeAWelcome(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		c := w.coordinator()
		c.Heartbeat = time.Nanosecond // so that every VM would be a flood
		w.serve(home, c)
		v := w.vm("a")
		time.Sleep(10 * time.Second)
		if _, err := v.Join(t.Context(), image); !errdefs.IsUnavailable(err) {
			t.Errorf("join: %v", err)
		}
	})
}

func TestCredentialThatCannotBeReadIsTriedAgain(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		var heard said
		c := w.coordinator()
		c.Said = heard.hear
		w.serve(home, c)
		tries := 0
		v := w.vm("a", func(o *treeclient.Options) {
			o.Credential = func() (string, error) {
				if tries++; tries < 3 {
					return "", errors.New("no such file")
				}
				return "credential", nil
			}
		})
		time.Sleep(5 * time.Second)
		if _, err := v.Join(t.Context(), image); err != nil {
			t.Error(err)
		}
		if h := pick(&heard, (*treepb.FromVM).GetHello); len(h) != 1 || h[0].Credential != "credential" {
			t.Errorf("hellos: %v", h)
		}
	})
}

// A coordinator that is gone and later one that cannot be joined are worth a line
// each, every try is not.
func TestEachReasonIsLoggedOnce(t *testing.T) {
	var lines bytes.Buffer
	logrus.SetOutput(&lines)
	t.Cleanup(func() { logrus.SetOutput(io.Discard) })
	inBubble(t, func(w *world) {
		t := w.t
		var lost atomic.Bool
		v := w.vm("a", func(o *treeclient.Options) {
			o.Credential = func() (string, error) {
				if lost.Load() {
					return "", errors.New("no such file")
				}
				return "credential", nil
			}
		})
		for range 2 {
			time.Sleep(time.Minute)
			lost.Store(true)
		}
		v.stop()
		if n := strings.Count(lines.String(), "no coordinator"); n != 2 || !strings.Contains(lines.String(), "no such file") {
			t.Errorf("%d lines of two reasons:\n%s", n, &lines)
		}
	})
}
