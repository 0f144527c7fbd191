package peer

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
	"github.com/faasnet/faasnet/peer/identity"
)

// fake is a Blocks in memory; what is in files is stored, what is in flying is on
// its way.
type fake struct {
	files  map[block.Sum]string
	flying block.Source
	offers func(block.Ref, block.Sender) block.Sink
}

func (f *fake) Open(_ context.Context, ref block.Ref) (*os.File, error) {
	name, ok := f.files[ref.Sum]
	if !ok {
		return nil, errdefs.ErrNotFound
	}
	return os.Open(name)
}

func (f *fake) Tap(ctx context.Context, ref block.Ref) (block.Tap, error) {
	if f.flying == nil {
		return nil, errdefs.ErrNotFound
	}
	p, err := f.flying.ReadBlock(ctx, ref, nil)
	return &whole{p: p}, err
}

func (f *fake) Watch(ref block.Ref) (block.Tap, error) { return f.Tap(context.Background(), ref) }

func (f *fake) Offer(_ context.Context, ref block.Ref, by block.Sender) (block.Sink, error) {
	if f.offers != nil {
		if s := f.offers(ref, by); s != nil {
			return s, nil
		}
	}
	return nil, errdefs.ErrAlreadyExists
}

// whole is a Tap of a block that is all there.
type whole struct{ p []byte }

func (w *whole) Next(context.Context) ([]byte, error) {
	if len(w.p) == 0 {
		return nil, io.EOF
	}
	p := w.p
	w.p = nil
	return p, nil
}

func (w *whole) Close() {}

// realRelay starts a relay on the loopback interface.
func realRelay(t *testing.T, name string, b Blocks, c *Catalog, change ...func(*Options)) (*Relay, Peer) {
	t.Helper()
	r := newReal(t, name, c, change...)
	return r, run(t, r, b)
}

func newReal(t testing.TB, name string, c *Catalog, change ...func(*Options)) *Relay {
	t.Helper()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	o := Options{VM: name, Catalog: c, Identity: func() (string, []ed25519.PublicKey) {
		return tenant, []ed25519.PublicKey{key.Public().(ed25519.PublicKey)}
	}}
	for _, f := range change {
		f(&o)
	}
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func run(t testing.TB, r *Relay, b Blocks) Peer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx, l, b) }()
	for !r.start(func() {}) {
		runtime.Gosched()
	}
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return Peer{r.opts.VM, l.Addr().String()}
}

// reads returns the Source through which child reads from parent.
func reads(t *testing.T, child *Relay, parent Peer) block.Source {
	t.Helper()
	token := tokenOf(t, child.opts.VM)
	child.mu.Lock()
	defer child.mu.Unlock()
	return &source{n: child.neighbour(parent), function: function, token: token}
}

func tokenOf(t testing.TB, vm string) string {
	t.Helper()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	token, err := identity.Sign(key, identity.Claims{
		Use: identity.Read, Tenant: tenant, Function: function, VM: vm, Expires: time.Now().Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func catalogOf(l *blocktest.Layer) *Catalog {
	c := NewCatalog()
	c.Add(function)
	c.SetLayers(function, []Layer{{l.Digest, l.Table}})
	return c
}

// A stored block is sent by sendfile, one in flight from the memory it came in
// to, under TLS it is copied: TLS is the price.
func TestHowBlocksAreSent(t *testing.T) {
	l := blocktest.Cut(blocktest.Random(1, 2*block.DefaultSize), block.DefaultSize)
	name := t.TempDir() + "/block"
	if err := os.WriteFile(name, l.Frame(0), 0o600); err != nil {
		t.Fatal(err)
	}
	for kind, conf := range map[string]func(string) *tls.Config{"plain": func(string) *tls.Config { return nil }, "TLS": certificates(t)} {
		t.Run(kind, func(t *testing.T) {
			f := &fake{files: map[block.Sum]string{l.Ref(0).Sum: name}, flying: l.Source()}
			server, parent := realRelay(t, "parent", f, catalogOf(l), func(o *Options) { o.TLS = conf("parent") })
			child, _ := realRelay(t, "child", &fake{}, catalogOf(l), func(o *Options) { o.TLS = conf("child") })
			src := reads(t, child, parent)
			for i := range 2 {
				p, err := src.ReadBlock(t.Context(), l.Ref(i), nil)
				if err != nil || !bytes.Equal(p, l.Frame(i)) {
					t.Fatalf("block %d: %d bytes, %v", i, len(p), err)
				}
			}
			var got, want [hows]int64
			for h := range hows {
				got[h] = server.uplink.bytes[h].Load()
			}
			want[fromMemory] = int64(l.Ref(1).Size)
			if kind == "plain" {
				want[fromFile] = int64(l.Ref(0).Size)
			} else {
				want[copied] = int64(l.Ref(0).Size)
			}
			if got != want {
				t.Errorf("sent %v, want %v", got, want)
			}
		})
	}
}

// certificates makes an authority and returns what makes a VM's configuration.
func certificates(t *testing.T) func(vm string) *tls.Config {
	t.Helper()
	make509 := func(name string, parent *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		c := &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			IsCA: parent == nil, BasicConstraintsValid: true,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
		if parent == nil {
			parent, by, c.KeyUsage = c, key, x509.KeyUsageCertSign
		}
		der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, by)
		if err != nil {
			t.Fatal(err)
		}
		out, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return out, key
	}
	ca, caKey := make509("authority", nil, nil)
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	return func(vm string) *tls.Config {
		c, key := make509(vm, ca, caKey)
		return &tls.Config{
			Certificates: []tls.Certificate{{Certificate: [][]byte{c.Raw}, PrivateKey: key}}, RootCAs: pool, ClientCAs: pool,
		}
	}
}

// SE-05: with TLS a VM is who its certificate says, whatever it says itself, and
// without a certificate it is nobody.
func TestSE05_TLS(t *testing.T) {
	var logged lines
	out := log.L.Logger.Out
	log.L.Logger.SetOutput(&logged)
	t.Cleanup(func() { log.L.Logger.SetOutput(out) })
	l := blocktest.NewLayer(1, block.MinSize, block.MinSize)
	conf := certificates(t)
	foreign := certificates(t)
	_, parent := realRelay(t, "parent", &fake{flying: l.Source()}, catalogOf(l), func(o *Options) { o.TLS = conf("parent") })
	for name, c := range map[string]*tls.Config{
		"another VM's certificate": conf("other"), "another authority's": foreign("child"), "none": {RootCAs: conf("child").RootCAs}, "no TLS": nil,
	} {
		child, _ := realRelay(t, "child", &fake{}, catalogOf(l), func(o *Options) { o.TLS, o.Connect = c, 300*time.Millisecond })
		if _, err := reads(t, child, parent).ReadBlock(t.Context(), l.Ref(0), nil); !errdefs.IsUnavailable(err) {
			t.Errorf("%s: %v", name, err)
		}
		// Who finds out says why: the child before it returns, the parent at about the same time.
		why := func() bool {
			s := logged.String()
			return strings.Contains(s, "cannot be reached") && strings.Contains(s, "vm=parent") || strings.Contains(s, "connection refused")
		}
		for end := time.Now().Add(10 * time.Second); !why() && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if !why() {
			t.Errorf("%s: nobody says why:\n%s", name, logged.String())
		}
		logged.reset()
	}
	child, _ := realRelay(t, "child", &fake{}, catalogOf(l), func(o *Options) { o.TLS = conf("child") })
	if _, err := reads(t, child, Peer{"stepfather", parent.Address}).ReadBlock(t.Context(), l.Ref(0), nil); !errdefs.IsUnavailable(err) {
		t.Errorf("a parent under another name: %v", err)
	}
	if p, err := reads(t, child, parent).ReadBlock(t.Context(), l.Ref(0), nil); err != nil || !bytes.Equal(p, l.Frame(0)) {
		t.Errorf("with the right one: %v", err)
	}
}

// An address that was given to another VM meanwhile is not the old one's.
func TestAddressOfAnotherVM(t *testing.T) {
	l := blocktest.NewLayer(1, block.MinSize, block.MinSize)
	_, parent := realRelay(t, "parent", &fake{flying: l.Source()}, catalogOf(l))
	child, _ := realRelay(t, "child", &fake{}, catalogOf(l))
	if _, err := reads(t, child, Peer{"gone", parent.Address}).ReadBlock(t.Context(), l.Ref(0), nil); !errdefs.IsUnavailable(err) {
		t.Errorf("got %v", err)
	}
}

// The frames of a bundle go out in one system call, from where they are: on a
// socket that keeps packets apart they are one packet.
func TestOneWriteForManyFrames(t *testing.T) {
	path := t.TempDir() + "/s"
	ln, err := net.Listen("unixpacket", path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	a, err := net.Dial("unixpacket", path)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	const frames, size = 40, 1000
	w := newWriter(a, newUplink(0))
	var want []byte
	for i := range frames {
		body := bytes.Repeat([]byte{byte(i)}, size)
		h := header{frameData, 0, uint32(i), size}
		want = append(h.append(want), body...)
		w.put(answers, &packet{header: h, body: body})
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.run(ctx) }()
	got := make([]byte, 2*len(want))
	if n, err := b.Read(got); err != nil || !bytes.Equal(got[:n], want) {
		t.Errorf("%d bytes in the first write, %v, want %d", n, err, len(want))
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestSocketOptions(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := tune(c); err != nil {
		t.Fatal(err)
	}
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		for name, want := range map[int]int{unix.TCP_NOTSENT_LOWAT: notSentLowat, unix.TCP_NODELAY: 1, unix.TCP_USER_TIMEOUT: 10_000} {
			if got, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, name); err != nil || got != want {
				t.Errorf("socket option %d is %d, %v, want %d", name, got, err, want)
			}
		}
	})
	if err != nil {
		t.Error(err)
	}
}
