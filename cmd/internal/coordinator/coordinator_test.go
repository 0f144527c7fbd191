package coordinator

import (
	"crypto/ed25519"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/peer/identity"
	"github.com/faasnet/faasnet/treeclient"
	"github.com/faasnet/faasnet/treeclient/treepb"
	"github.com/faasnet/faasnet/treeclient/treetest"
)

const image = "sha256:f"

func TestProtocol(t *testing.T) {
	for _, form := range []tree.Form{tree.Striped, tree.Complete, tree.Rotate} {
		t.Run(string(form), func(t *testing.T) {
			treetest.Test(t, func(t *testing.T) *grpc.ClientConn {
				t.Helper()
				w := &world{t: t}
				w.serve(home, Options{Form: form, Heartbeat: 5 * time.Second}) // no VM dies of a slow machine
				conn, err := w.net.Dial(home)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { conn.Close() })
				return conn
			})
		})
	}
}

func TestCO04_SilentVMIsGoneWithinThreeHeartbeats(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		c := w.serve(home, Options{})
		r, _, err := w.raw("10.9.0.1:1", &treepb.Hello{Protocol: 1, Vm: "dead", Address: "10.9.0.1:7000"})
		if err != nil {
			t.Fatal(err)
		}
		r.Send(&treepb.FromVM{Message: &treepb.FromVM_Join{Join: &treepb.Join{Function: image}}})
		synctest.Wait()
		last := time.Now() // it says nothing more, and its connection stays
		a := w.vm(1)
		if a.join(t, image); a.up(image, 0) != "dead" {
			t.Fatalf("a reads from %s", a.up(image, 0))
		}
		for a.up(image, 0) == "dead" && time.Since(last) < time.Minute {
			time.Sleep(time.Millisecond)
		}
		if d := time.Since(last); d > 3*DefaultHeartbeat || d < 2*DefaultHeartbeat {
			t.Errorf("gone %v after its last message, want within 3 heartbeats of %v, and 2 may be late", d, DefaultHeartbeat)
		}
		if got := a.up(image, 0); got != "origin" {
			t.Errorf("a reads from %s", got)
		}
		if n := nodeOf(c.tree(image), "dead"); n != nil {
			t.Errorf("it is in the tree: %v", n)
		}
	})
}

func TestCO04_GoneAtTheFirstReport(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		c := w.serve(home, Options{})
		r, _, _ := w.raw("10.9.0.1:1", &treepb.Hello{Protocol: 1, Vm: "dead", Address: "10.9.0.1:7000"})
		for _, f := range []string{image, "other"} {
			r.Send(&treepb.FromVM{Message: &treepb.FromVM_Join{Join: &treepb.Join{Function: f}}})
		}
		a := w.vm(1)
		a.join(t, image)
		time.Sleep(400 * time.Millisecond) // one heartbeat has stayed away
		a.Report(image, 0, "dead", treeclient.Unreachable, time.Now())
		synctest.Wait()
		if got := a.up(image, 0); got != "origin" {
			t.Errorf("after the report a reads from %s", got)
		}
		if c.tree("other") != nil {
			t.Error("it has a place in another function")
		}
	})
}

func TestCO04_LostStream(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		w.serve(home, Options{})
		r, _, _ := w.raw("10.9.0.1:1", &treepb.Hello{Protocol: 1, Vm: "dead", Address: "10.9.0.1:7000"})
		r.Send(&treepb.FromVM{Message: &treepb.FromVM_Join{Join: &treepb.Join{Function: image}}})
		a := w.vm(1)
		a.join(t, image)
		r.cancel()
		synctest.Wait()
		if got := a.up(image, 0); got != "origin" {
			t.Errorf("its stream is lost and a reads from %s", got)
		}
	})
}

func TestCO04_LastVMLeavesAndTheNextIsRoot(t *testing.T) {
	for _, form := range []tree.Form{tree.Striped, tree.Complete, tree.Rotate} {
		t.Run(string(form), func(t *testing.T) {
			inBubble(t, func(w *world) {
				t := w.t
				c := w.serve(home, Options{Form: form})
				a, b := w.vm(1), w.vm(2)
				first := a.join(t, image)
				a.Leave(image)
				synctest.Wait()
				if c.tree(image) != nil {
					t.Error("a tree without VMs")
				}
				p := b.join(t, image)
				for _, s := range p.Stripes {
					if s.Upstream.VM != "" {
						t.Errorf("the next one reads from %+v", s)
					}
				}
				if p.Epoch <= first.Epoch {
					t.Errorf("epoch %d after %d", p.Epoch, first.Epoch)
				}
			})
		})
	}
}

func TestIdleVMsLeaveAfter15Minutes(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		c := w.serve(home, Options{})
		idle, busy := w.vm(1), w.vm(2)
		idle.join(t, image)
		busy.join(t, image)
		active := func() {
			busy.mu.Lock()
			busy.load.Relayed++
			busy.mu.Unlock()
		}
		for range 14 {
			active()
			time.Sleep(time.Minute)
		}
		if nodeOf(c.tree(image), idle.name) == nil {
			t.Fatal("gone after 14 minutes")
		}
		for range 2 {
			active()
			time.Sleep(time.Minute)
		}
		tr := c.tree(image)
		if nodeOf(tr, idle.name) != nil || nodeOf(tr, busy.name) == nil {
			t.Errorf("after 16 minutes: %v", tr)
		}
		if got := idle.up(image, 0); got != "none" {
			t.Errorf("the idle VM reads from %s", got)
		}
		idle.mu.Lock()
		idle.load.Read++
		idle.mu.Unlock()
		time.Sleep(time.Second)
		if nodeOf(c.tree(image), idle.name) == nil {
			t.Error("it reads again and has no place")
		}
	})
}

func TestAtMost20FunctionsAVM(t *testing.T) {
	f := newFleet(t, Options{})
	m := f.attend("a")
	for i := range 25 {
		f.join(m, fmt.Sprint("f", i), 0)
	}
	if len(m.places) != DefaultMaxFunctions || len(m.refusals) != 5 || m.refusals["f24"].Again != treepb.Refusal_AGAIN_LATER {
		t.Errorf("%d places, refusals %v", len(m.places), m.refusals)
	}
	f.leave(m, "f3")
	f.join(m, "f24", 0)
	if m.places["f24"] == nil {
		t.Error("there is room and it has no place")
	}
}

func TestTokensAreRenewedBeforeTheyExpire(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		w.serve(home, Options{})
		a := w.vm(1)
		first := a.join(t, image)
		_, keys := a.Identity()
		for range 120 {
			time.Sleep(30 * time.Second)
			a.mu.Lock()
			a.load.Read++ // not idle
			a.mu.Unlock()
			p, _ := a.Place(image)
			if left := time.Until(p.Expires); left < DefaultTokenTTL/2-10*time.Second {
				t.Fatalf("a token with %v left", left)
			}
			if _, err := (identity.Verifier{Keys: keys}).Verify(p.Token, identity.Read); err != nil {
				t.Fatal(err)
			}
		}
		if p, _ := a.Place(image); p.Epoch != first.Epoch || p.Token == first.Token {
			t.Errorf("epoch %d and %d, the token is the same: %t", first.Epoch, p.Epoch, p.Token == first.Token)
		}
	})
}

func TestTwoStreamsOfOneVM(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		c := w.serve(home, Options{})
		hello := func(address string) *treepb.Hello { return &treepb.Hello{Protocol: 1, Vm: "a", Address: address} }
		old, _, _ := w.raw("10.9.0.1:1", hello("10.9.0.1:7000"))
		old.beat()
		old.Send(&treepb.FromVM{Message: &treepb.FromVM_Join{Join: &treepb.Join{Function: image}}})
		synctest.Wait()
		if _, _, err := w.raw("10.9.0.2:1", hello("10.9.0.2:7000")); status.Code(err) != codes.AlreadyExists {
			t.Errorf("another VM of the name: %v", err)
		}
		again, welcome, err := w.raw("10.9.0.1:2", hello("10.9.0.1:7000"))
		if err != nil || welcome == nil {
			t.Fatalf("the same VM again: %v", err)
		}
		again.beat()
		if _, err := old.last(); status.Code(err) != codes.Aborted {
			t.Errorf("the older stream ends with %v", err)
		}
		if c.tree(image) != nil {
			t.Error("the new stream has not joined and the VM has a place")
		}
		again.Send(&treepb.FromVM{Message: &treepb.FromVM_Join{Join: &treepb.Join{Function: image}}})
		synctest.Wait()
		if tr := c.tree(image); len(tr.GetNodes()) != 1 {
			t.Errorf("%v", tr)
		}
		again.cancel()
		synctest.Wait()
		if c.tree(image) != nil {
			t.Error("the place outlives the stream")
		}
	})
}

func TestVMThatMovedToAnotherAddressIsTakenWhenTheOldOneIsSilent(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		w.serve(home, Options{})
		w.raw("10.9.0.1:1", &treepb.Hello{Protocol: 1, Vm: "a", Address: "10.9.0.1:7000"})
		time.Sleep(400 * time.Millisecond)
		if _, welcome, err := w.raw("10.9.0.2:1", &treepb.Hello{Protocol: 1, Vm: "a", Address: "10.9.0.2:7000"}); err != nil || welcome == nil {
			t.Errorf("refused: %v", err)
		}
	})
}

func TestCredentials(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, stranger, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(t *testing.T, key ed25519.PrivateKey, c identity.Claims) string {
		t.Helper()
		c.Expires = time.Now().Add(time.Minute)
		s, err := identity.Sign(key, c)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	inBubble(t, func(w *world) {
		t := w.t
		c := w.serve(home, Options{Credentials: identity.Verifier{Keys: []ed25519.PublicKey{key.Public().(ed25519.PublicKey)}}})
		own := sign(t, key, identity.Claims{Use: identity.Join, Tenant: "x", VM: "vm001"})
		for name, cr := range map[string]struct {
			text string
			want codes.Code
		}{
			"none":             {"", codes.Unauthenticated},
			"garbage":          {"a.b.c", codes.Unauthenticated},
			"other VM's":       {sign(t, key, identity.Claims{Use: identity.Join, Tenant: "x", VM: "vm002"}), codes.PermissionDenied},
			"a function token": {sign(t, key, identity.Claims{Use: identity.Read, Tenant: "x", VM: "vm001", Function: image}), codes.Unauthenticated},
			"stranger's":       {sign(t, stranger, identity.Claims{Use: identity.Join, Tenant: "x", VM: "vm001"}), codes.Unauthenticated},
		} {
			if _, _, err := w.raw("10.9.0.1:1", &treepb.Hello{Protocol: 1, Vm: "vm001", Address: "10.9.0.1:7000", Credential: cr.text}); status.Code(err) != cr.want {
				t.Errorf("%s: %v, want %v", name, err, cr.want)
			}
		}
		with := func(credential string) func(*treeclient.Options) {
			return func(o *treeclient.Options) {
				o.Credential = func() (string, error) { return credential, nil }
			}
		}
		a := w.vm(1, with(own))
		a.join(t, image)
		// Another tenant's VM of the same name, with a credential for any VM.
		b := w.vm(1, with(sign(t, key, identity.Claims{Use: identity.Join, Tenant: "y"})))
		p := b.join(t, image)
		if p.Stripes[0].Upstream.VM != "" {
			t.Errorf("a tenant's VM reads from another tenant's: %+v", p)
		}
		if tenant, _ := b.Identity(); tenant != "y" {
			t.Errorf("tenant %q", tenant)
		}
		if x, y := c.Tree(Key{"x", image}), c.Tree(Key{"y", image}); len(x.GetNodes()) != 1 || len(y.GetNodes()) != 1 {
			t.Errorf("trees %v and %v", x, y)
		}
		claims, err := identity.Verifier{Keys: []ed25519.PublicKey{testKey().Public().(ed25519.PublicKey)}}.Verify(p.Token, identity.Read)
		if err != nil || claims.Tenant != "y" || claims.Function != image || claims.VM != "vm001" {
			t.Errorf("token %+v, %v", claims, err)
		}
		b.Report(image, 0, "vm001", treeclient.Unreachable, time.Now())
		synctest.Wait()
		if got := a.up(image, 0); got != "origin" {
			t.Errorf("a report reached another tenant: %s", got)
		}
		time.Sleep(2 * time.Minute) // the credential is over, the stream is not; a new one is refused
		if _, _, err := w.raw("10.9.0.1:1", &treepb.Hello{Protocol: 1, Vm: "vm001", Address: "10.9.0.1:7000", Credential: own}); status.Code(err) != codes.Unauthenticated {
			t.Errorf("expired: %v", err)
		}
	})
}

func TestHelloIsChecked(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		w.serve(home, Options{AllowLoopback: true})
		for name, c := range map[string]struct {
			hello *treepb.Hello
			from  string
		}{
			"no name":                       {&treepb.Hello{Protocol: 1, Address: "10.9.0.1:1"}, "10.9.0.1:1"},
			"a name of 257 bytes":           {&treepb.Hello{Protocol: 1, Vm: string(make([]byte, 257)), Address: "10.9.0.1:1"}, "10.9.0.1:1"},
			"PN-12 loopback":                {&treepb.Hello{Protocol: 1, Vm: "a", Address: "127.0.0.1:1"}, "10.9.0.1:1"},
			"PN-12 loopback, version 6":     {&treepb.Hello{Protocol: 1, Vm: "a", Address: "[::1]:1"}, "10.9.0.1:1"},
			"PN-12 unspecified":             {&treepb.Hello{Protocol: 1, Vm: "a", Address: "0.0.0.0:1"}, "10.9.0.1:1"},
			"PN-12 unspecified from itself": {&treepb.Hello{Protocol: 1, Vm: "a", Address: "0.0.0.0:1"}, "127.0.0.1:1"},
			"no port":                       {&treepb.Hello{Protocol: 1, Vm: "a", Address: "10.9.0.1"}, "10.9.0.1:1"},
			"port 0":                        {&treepb.Hello{Protocol: 1, Vm: "a", Address: "10.9.0.1:0"}, "10.9.0.1:1"},
			"multicast":                     {&treepb.Hello{Protocol: 1, Vm: "a", Address: "224.0.0.1:1"}, "10.9.0.1:1"},
		} {
			if _, _, err := w.raw(c.from, c.hello); status.Code(err) != codes.InvalidArgument {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, _, err := w.raw("10.9.0.1:1", &treepb.Hello{Protocol: 2, Vm: "a", Address: "10.9.0.1:1"}); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("protocol 2: %v", err)
		}
		if _, _, err := w.raw("127.0.0.1:1", &treepb.Hello{Protocol: 1, Vm: "a", Address: "127.0.0.1:1"}); err != nil {
			t.Errorf("loopback on this host, allowed: %v", err)
		}
	})
	inBubble(t, func(w *world) {
		t := w.t
		w.serve(home, Options{})
		if _, _, err := w.raw("127.0.0.1:1", &treepb.Hello{Protocol: 1, Vm: "a", Address: "127.0.0.1:1"}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("loopback on this host, not allowed: %v", err)
		}
		conn, _ := w.net.Dial(home)
		defer conn.Close()
		s, err := treepb.NewMembershipClient(conn).Attend(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); status.Code(err) != codes.Unauthenticated {
			t.Errorf("a VM that says nothing: %v", err)
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]Options{
		"no key":          {},
		"unknown form":    {Key: testKey(), Form: "bush"},
		"negative time":   {Key: testKey(), Heartbeat: -1},
		"no time":         {Key: testKey(), Heartbeat: 1},
		"negative number": {Key: testKey(), MaxFunctions: -1},
	} {
		if _, err := New(o); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
