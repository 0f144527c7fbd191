package peer

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
	"github.com/faasnet/faasnet/peer/identity"
)

// dial connects to v under a name, as its relay would.
func (w *world) dial(name string, v *vm) (*conn, *vm) {
	w.t.Helper()
	u := w.start(name, 0)
	c, err := u.neighbourOf(v).connect(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return c, u
}

// want asks for a block with a token, and returns what comes.
func (w *world) want(c *conn, fn, token string, ref block.Ref) ([]byte, error) {
	dst := make([]byte, ref.Size)
	err := c.get(w.t.Context(), c.open(fn, token), ref, dst, 0, func(int) {})
	return dst, err
}

// A VM without a valid token gets nothing, whatever is wrong with it, and is
// logged and counted.
func TestSE05_Tokens(t *testing.T) {
	var logged lines
	out := log.L.Logger.Out
	log.L.Logger.SetOutput(&logged)
	t.Cleanup(func() { log.L.Logger.SetOutput(out) })
	other := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	for name, token := range map[string]func(*vm) string{
		"none":    func(*vm) string { return "" },
		"garbage": func(*vm) string { return "a.b.c" },
		"other's key": func(v *vm) string {
			s, _ := identity.Sign(other, identity.Claims{Use: identity.Read, Tenant: tenant, Function: function, VM: v.name, Expires: time.Now().Add(time.Hour)})
			return s
		},
		"function": func(v *vm) string { return v.token(func(c *identity.Claims) { c.Function = "sha256:g" }) },
		"tenant":   func(v *vm) string { return v.token(func(c *identity.Claims) { c.Tenant = "evil" }) },
		"VM":       func(v *vm) string { return v.token(func(c *identity.Claims) { c.VM = "b" }) },
		"no VM":    func(v *vm) string { return v.token(func(c *identity.Claims) { c.VM = "" }) },
		"expired": func(v *vm) string {
			return v.token(func(c *identity.Claims) { c.Expires = time.Now().Add(-time.Minute) })
		},
		"join": func(v *vm) string { return v.token(func(c *identity.Claims) { c.Use, c.Function = identity.Join, "" }) },
	} {
		t.Run("SE-05 "+name, func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				t := w.t
				a := w.start("a", 0)
				a.mustRead(0)
				logged.reset()
				c, out := w.dial("outsider", a)
				dst, err := w.want(c, function, token(out), w.layer.Ref(0))
				if !errdefs.IsPermissionDenied(err) || !bytes.Equal(dst, make([]byte, len(dst))) {
					t.Errorf("got %v", err)
				}
				k := newCall(block.Ref{}, nil)
				tag := c.begin(k, frameOrder, 0, follow{handle: 1, stripes: 1}.marshal())
				if err := c.wait(t.Context(), tag, k); !errdefs.IsPermissionDenied(err) {
					t.Errorf("order: %v", err)
				}
				k = newCall(block.Ref{}, nil)
				tag = c.begin(k, frameFollow, 0, follow{handle: 1, stripes: 1}.marshal())
				if err := c.wait(t.Context(), tag, k); !errdefs.IsPermissionDenied(err) {
					t.Errorf("follow: %v", err)
				}
				if sent, _ := a.relay.Relayed(); sent != 0 || a.relay.Children() != 0 {
					t.Errorf("%d bytes sent, %d followers", sent, a.relay.Children())
				}
				if n := a.relay.metrics.refusals.Load(); n != 4 {
					t.Errorf("%d refusals counted", n)
				}
				if s := logged.String(); !strings.Contains(s, "request refused") || !strings.Contains(s, "outsider") || token(out) != "" && strings.Contains(s, token(out)) {
					t.Errorf("logged: %s", s)
				}
				time.Sleep(provenWithin + time.Second)
				if a.relay.connections() != 0 {
					t.Error("the outsider is still connected")
				}
			})
		})
	}
}

// A token for one function never opens another one's blocks, though the VM has
// both: neither by their digest nor under a name of the first.
func TestSE05_OtherFunctionsBlocks(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		t := w.t
		a := w.start("a", 0)
		a.mustRead(0)
		secret := blocktest.NewLayer(9, blockSize, blockSize)
		a.catalog.Add("sha256:secret")
		a.catalog.SetLayers("sha256:secret", []Layer{{secret.Digest, secret.Table}})
		if err := a.store.Put(t.Context(), secret.Ref(0), secret.Frame(0)); err != nil {
			t.Fatal(err)
		}
		c, out := w.dial("b", a)
		token := out.token()
		if _, err := w.want(c, function, token, w.layer.Ref(0)); err != nil {
			t.Error(err)
		}
		disguised := w.layer.Ref(0)
		disguised.Sum, disguised.Size = secret.Ref(0).Sum, secret.Ref(0).Size
		for name, ref := range map[string]block.Ref{"by digest": secret.Ref(0), "disguised": disguised} {
			dst, err := w.want(c, function, token, ref)
			if !errdefs.IsNotFound(err) || !bytes.Equal(dst, make([]byte, len(dst))) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := w.want(c, "sha256:secret", token, secret.Ref(0)); !errdefs.IsPermissionDenied(err) {
			t.Errorf("function of others: %v", err)
		}
		if n := a.relay.metrics.refusals.Load(); n != 4 {
			t.Errorf("%d refusals counted", n)
		}
	})
}

// A handle is good for as long as its token, and longer with a new one. Followers
// are pushed nothing once theirs has expired.
func TestSE05_ExpiryOfOpenHandles(t *testing.T) {
	inWorld(t, 6, func(w *world) {
		t := w.t
		a := w.start("a", 0)
		c, b := w.dial("b", a)
		short := func(c *identity.Claims) { c.Expires = time.Now().Add(20 * time.Second) }
		b.place(Place{Epoch: 1, Token: b.token(short), Stripes: []Stripe{{Upstream: a.peer()}}})
		time.Sleep(time.Second)
		a.mustRead(0)
		time.Sleep(time.Second)
		if !b.has(0) {
			t.Error("not pushed while the token is good")
		}
		b.place(Place{Epoch: 1, Token: b.token(short), Stripes: []Stripe{{Upstream: a.peer()}}})
		time.Sleep(20 * time.Second)
		a.mustRead(1)
		time.Sleep(time.Second)
		if !b.has(1) {
			t.Error("not pushed though the token was renewed")
		}
		time.Sleep(10 * time.Second)
		a.mustRead(2)
		time.Sleep(time.Second)
		if b.has(2) {
			t.Error("pushed although the token has expired")
		}
		c.mu.Lock()
		l := c.leases[function]
		c.mu.Unlock()
		if err := c.get(t.Context(), l, w.layer.Ref(2), make([]byte, w.layer.Ref(2).Size), 0, func(int) {}); !errdefs.IsPermissionDenied(err) {
			t.Errorf("asked with an expired token: %v", err)
		}
		b.mustRead(2) // from the registry
		b.place(Place{Epoch: 1, Token: b.token(), Stripes: []Stripe{{Upstream: a.peer()}}})
		time.Sleep(avoidFor)
		before := w.origin.Calls()
		b.mustRead(3)
		time.Sleep(time.Second)
		if n := w.origin.Calls() - before; n != 1 || !a.has(3) {
			t.Errorf("%d requests to the registry, a has the block: %v", n, a.has(3))
		}
	})
}

// PN-08: what peers give is addressed by digest; a name that may move is no
// request at all.
func TestPN08_OnlyDigests(t *testing.T) {
	for _, name := range []string{"registry.example/app:latest", "", "sha256:zz", "latest"} {
		ref := block.Ref{Blob: blob(name), Size: 1}
		if _, err := parseGet(get{handle: 1, ref: ref}.marshal()); !errors.Is(err, errProtocol) {
			t.Errorf("%q: %v", name, err)
		}
		if _, err := parsePush(push{handle: 1, ref: ref}.marshal()); !errors.Is(err, errProtocol) {
			t.Errorf("pushed %q: %v", name, err)
		}
	}
}

// Whoever connects and says nothing, or no preface, goes; so does one connection
// too many.
func TestSE05_Strangers(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		t := w.t
		a := w.start("a", 0, func(o *Options) { o.MaxConns = 2 })
		h := w.net.Host("x", 0)
		for name, say := range map[string]string{"nothing": "", "http": "GET / HTTP/1.1\r\nHost: a\r\n\r\n and more bytes than a preface has", "version 2": "faasnet\x02 and a header"} {
			began := time.Now()
			c, err := h.Dial(t.Context(), a.host.Address())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(c, say); err != nil {
				t.Error(err)
			}
			if _, err := io.Copy(io.Discard, c); err != nil {
				t.Error(err)
			}
			if d := time.Since(began); d > 2*DefaultConnect {
				t.Errorf("%s: thrown out after %v", name, d)
			}
			c.Close()
		}
		began := time.Now()
		var conns []net.Conn
		for range 3 {
			c, err := h.Dial(t.Context(), a.host.Address())
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
		}
		defer func() {
			for _, c := range conns {
				c.Close()
			}
		}()
		synctest.Wait()
		if p, err := io.ReadAll(conns[0]); err != nil || time.Since(began) >= DefaultConnect {
			t.Errorf("the first of three: %d bytes, %v, after %v", len(p), err, time.Since(began))
		}
		for i, c := range conns[1:] { // these have been sent a HELLO
			if n, err := c.Read(make([]byte, 1)); n != 1 {
				t.Errorf("connection %d of three: %v", i+1, err)
			}
		}
	})
}

// As many strangers as a VM takes do not keep away those that have a token, nor do
// they part those that have shown theirs.
func TestSE05_CrowdOfStrangers(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		t := w.t
		a := w.start("a", 0, func(o *Options) { o.MaxConns = 2 })
		h := w.net.Host("x", 0)
		crowd := func() {
			for range 8 {
				c, err := h.Dial(t.Context(), a.host.Address())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
			}
			synctest.Wait()
		}
		crowd()
		c, b := w.dial("b", a)
		for i := range 2 {
			if _, err := w.want(c, function, b.token(), w.layer.Ref(i)); err != nil {
				t.Errorf("block %d beside a crowd: %v", i, err)
			}
			crowd()
		}
		count := func() (guests, unproven int) {
			a.relay.mu.Lock()
			defer a.relay.mu.Unlock()
			return len(a.relay.guests), len(a.relay.unproven)
		}
		if _, n := count(); n != 1 {
			t.Errorf("%d strangers are connected beside one VM, want 1", n)
		}
		time.Sleep(2 * DefaultConnect)
		synctest.Wait()
		if g, u := count(); g != 1 || u != 0 {
			t.Errorf("afterwards %d connections are counted, %d without a token", g, u)
		}
	})
}

// Two VMs that are connected for days read more functions than may be open at a
// time: those whose tokens have expired do not count.
func TestExpiredFunctionsMakeRoom(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		t := w.t
		a := w.start("a", 0)
		c, b := w.dial("b", a)
		opened := func(i int) error {
			fn := fmt.Sprint("function ", i)
			l := c.open(fn, b.token(func(c *identity.Claims) { c.Function = fn }))
			return c.wait(t.Context(), 0, l.call)
		}
		for i := range maxGrants {
			if err := opened(i); err != nil {
				t.Fatalf("function %d: %v", i, err)
			}
		}
		if err := opened(maxGrants); !errdefs.IsPermissionDenied(err) {
			t.Errorf("one function too many: %v", err)
		}
		time.Sleep(time.Minute + 2*identity.Leeway)
		if err := opened(maxGrants + 1); err != nil {
			t.Errorf("after the others have expired: %v", err)
		}
	})
}

// lines is a log in memory.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *lines) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf.Reset()
}
