package peer

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"io"
	"net"
	"testing"
	"time"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
	"github.com/faasnet/faasnet/peer/identity"
)

// script is what the other side says; the connection ends after it.
type script struct {
	net.Conn
	io.Reader
}

func (s script) Read(p []byte) (int, error)     { return s.Reader.Read(p) }
func (script) Write(p []byte) (int, error)      { return len(p), nil }
func (script) Close() error                     { return nil }
func (script) SetWriteDeadline(time.Time) error { return nil }
func (script) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func frame(k kind, flags uint8, tag uint32, p []byte) []byte {
	return append(header{k, flags, tag, uint32(len(p))}.append(nil), p...)
}

var (
	fuzzLayer = blocktest.NewLayer(1, block.MinSize, 3*block.MinSize)
	fuzzKey   = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
)

// other is a relay that runs nothing, and the frame that opens the function.
func fuzzRelay(t testing.TB, b Blocks) (*Relay, []byte) {
	r, err := New(Options{VM: "me", Catalog: catalogOf(fuzzLayer), Identity: func() (string, []ed25519.PublicKey) {
		return tenant, []ed25519.PublicKey{fuzzKey.Public().(ed25519.PublicKey)}
	}})
	if err != nil {
		t.Fatal(err)
	}
	r.ctx, r.blocks = t.Context(), b
	token, err := identity.Sign(fuzzKey, identity.Claims{
		Use: identity.Read, Tenant: tenant, Function: function, VM: "you", Expires: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
	})
	if err != nil {
		t.Fatal(err)
	}
	return r, frame(frameOpen, 0, 1, open{1, function, token}.marshal())
}

// FuzzServe takes whatever a VM that has opened a function may send: no panic,
// no hang, nothing from outside of the function.
func FuzzServe(f *testing.F) {
	ref := fuzzLayer.Ref(1)
	for _, p := range [][]byte{
		frame(frameGet, 0, 2, get{1, 9, ref, []id{3, 4}}.marshal()),
		frame(frameGet, flagStored, 3, get{1, 0, ref, nil}.marshal()),
		frame(frameFollow, 0, 4, follow{1, 0, 2}.marshal()),
		frame(frameLeave, 0, 0, follow{1, 0, 2}.marshal()),
		frame(frameOrder, 0, 5, follow{handle: 1, stripes: 1}.marshal()),
		frame(frameCancel, 0, 2, nil), frame(frameCancel, flagPush, 1, nil), frame(frameUrge, flagPush, 1, nil),
		append(frame(frameGet, flagLater, 2, get{1, 9, ref, nil}.marshal()), frame(frameUrge, flagSoon, 2, nil)...), frame(frameUrge, 0, 2, nil),
		frame(framePing, 0, 1, nil), frame(200, 3, 1, []byte("later")), frame(frameOpen, 0, 7, []byte{0, 0, 0, 2, 0, 200}),
		{byte(frameData), 1, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff},
	} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		r, opening := fuzzRelay(t, &fake{flying: fuzzLayer.Source()})
		c := newConn(r, script{Reader: bytes.NewReader(append(opening, p...))}, "you", false)
		if err := c.run(); err == nil {
			t.Error("ends without a reason")
		}
		if sent := r.uplink.bytes[fromMemory].Load(); sent > int64(len(p))*int64(3*block.MinSize) {
			t.Errorf("%d bytes for %d", sent, len(p))
		}
	})
}

// FuzzAsk takes whatever a VM may answer of which we want a block, which we
// follow, and whose order we want to know.
func FuzzAsk(f *testing.F) {
	ref, p := fuzzLayer.Ref(1), fuzzLayer.Frame(1)
	for _, p := range [][]byte{
		append(frame(frameData, 0, 2, p), frame(frameEnd, 0, 2, nil)...),
		append(frame(frameData, 0, 2, p[:10]), frame(frameAbort, 0, 2, nil)...),
		append(frame(frameData, 0, 2, p), frame(frameData, 0, 2, p)...),
		frame(frameEnd, 0, 2, nil), frame(frameNotYet, 0, 2, appendPath(nil, []id{1, 2})), frame(frameNotHave, 0, 2, []byte{1}),
		frame(frameMoved, 0, 3, make([]byte, 8)), frame(frameRefused, 0, 1, text16(nil, "no")), frame(frameOK, 0, 3, nil),
		frame(frameOrdered, 0, 4, appendOrder(nil, []int{2, 0, 1 << 30})),
		append(frame(framePush, 0, 1, push{1, fuzzLayer.Ref(0)}.marshal()), frame(frameData, flagPush, 1, p[:9])...),
		append(frame(framePush, 0, 1, push{1, ref}.marshal()), append(frame(frameData, flagPush, 1, p), frame(frameEnd, flagPush, 1, nil)...)...),
		frame(frameEnd, flagPush, 9, nil), frame(framePong, 0, 0, nil),
	} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		sinks := &sinks{t: t}
		r, _ := fuzzRelay(t, &fake{offers: sinks.offer})
		c := newConn(r, script{Reader: bytes.NewReader(answer)}, "you", true)
		l := c.open(function, "token")  // tag 1
		dst := make([]byte, ref.Size+8) // the last 8 are nobody's
		block, follows, order := newCall(ref, dst[:ref.Size]), newCall(ref, nil), newCall(ref, nil)
		follows.keep = true
		c.begin(block, frameGet, 0, get{handle: l.handle, ref: ref}.marshal()) // 2
		c.begin(follows, frameFollow, 0, follow{1, 0, 1}.marshal())            // 3
		c.begin(order, frameOrder, 0, follow{handle: 1, stripes: 1}.marshal()) // 4
		if err := c.run(); err == nil {
			t.Error("ends without a reason")
		}
		for name, k := range map[string]*call{"GET": block, "FOLLOW": follows, "ORDER": order, "OPEN": l.call} {
			if !k.done || k.reading {
				t.Errorf("%s never ends", name)
			}
		}
		if !bytes.Equal(dst[ref.Size:], make([]byte, 8)) {
			t.Error("written past the block")
		}
		r.opts.Catalog.refs(function, order.numbers)
		sinks.check()
	})
}

// sinks takes pushes and checks how it is treated.
type sinks struct {
	t   *testing.T
	all []*sinkOf
}

type sinkOf struct {
	s    *sinks
	buf  []byte
	n    int
	ends int
}

func (s *sinks) offer(ref block.Ref, _ block.Sender) block.Sink {
	x := &sinkOf{s: s, buf: make([]byte, ref.Size)}
	s.all = append(s.all, x)
	return x
}

func (s *sinks) check() {
	for _, x := range s.all {
		if x.ends != 1 {
			s.t.Errorf("a push was ended %d times", x.ends)
		}
	}
}

func (x *sinkOf) Buffer() []byte { return x.buf }

func (x *sinkOf) Arrived(n int) bool {
	if n < x.n || n > len(x.buf) || x.ends > 0 {
		x.s.t.Errorf("%d bytes after %d, ended %d times", n, x.n, x.ends)
	}
	x.n = n
	return n < len(x.buf)/2
}

func (x *sinkOf) End(err error) {
	x.ends++
	if err == nil && x.n != len(x.buf) {
		x.s.t.Errorf("a good end of %d of %d bytes", x.n, len(x.buf))
	}
}

// FuzzGreet takes whatever a machine may say at first.
func FuzzGreet(f *testing.F) {
	f.Add(append([]byte(preface), frame(frameHello, 0, 0, hello{"you"}.marshal())...))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	f.Add(append([]byte(preface), frame(frameHello, 0, 0, make([]byte, 300))...))
	f.Fuzz(func(t *testing.T, p []byte) {
		a, b := net.Pipe()
		defer a.Close()
		go func() {
			defer b.Close()
			b.SetDeadline(time.Now().Add(time.Second))
			go io.Copy(io.Discard, b)
			b.Write(p)
		}()
		vm, err := greet(context.Background(), a, "me", time.Second)
		if err == nil && (vm == "" || len(vm) > maxName) {
			t.Errorf("a VM named %q", vm)
		}
	})
}
