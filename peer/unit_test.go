package peer

import (
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
)

// The writer sends control frames first, then answers, then pushes; in a class
// the transfer that began first; what is urged counts as an answer.
func TestWriterOrder(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	w := newWriter(a, newUplink(0))
	put := func(c class, stream uint64, tag uint32) {
		w.put(c, &packet{header: header{kind: frameData, tag: tag, size: pieceSize}, stream: stream, body: make([]byte, pieceSize)})
	}
	put(pushes, 1, 10)
	put(pushes, 2, 11)
	put(answers, 5, 20)
	put(answers, 3, 21)
	put(answers, 5, 22)
	put(pushes, 1, 12)
	w.urge(2)
	w.say(frameNotYet, 0, 30, nil)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.run(ctx) }()
	var got []uint32
	p := make([]byte, headerSize+pieceSize)
	for range 7 {
		if _, err := io.ReadFull(b, p[:headerSize]); err != nil {
			t.Fatal(err)
		}
		h, err := parseHeader(p)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, h.tag)
		if _, err := io.ReadFull(b, p[:h.size]); err != nil {
			t.Fatal(err)
		}
	}
	if want := []uint32{30, 11, 21, 20, 22, 10, 12}; !slices.Equal(got, want) {
		t.Errorf("sent %v, want %v", got, want)
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	// Afterwards nothing is taken any more.
	if err := w.send(t.Context(), answers, &packet{}); !errors.Is(err, context.Canceled) {
		t.Errorf("sent after the end: %v", err)
	}
}

// A VM that lets control frames pile up loses its connection.
func TestWriterIsBounded(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	w := newWriter(a, newUplink(0))
	for range maxControl + 1 {
		w.say(framePong, 0, 0, nil)
	}
	if err := w.run(t.Context()); err == nil {
		t.Error("goes on")
	}
	if n := len(w.queue[control]); n != 0 {
		t.Errorf("%d frames are kept", n)
	}
}

func TestCatalog(t *testing.T) {
	x, y := blocktest.NewLayer(1, block.MinSize, 3*block.MinSize), blocktest.NewLayer(2, block.MinSize, 2*block.MinSize)
	empty := blocktest.Cut(nil, block.MinSize)
	section := blocktest.SectionRef(digest.FromString("index"), 5, []byte("section"))
	c := NewCatalog()
	if holds, known := c.holds("f", x.Ref(0)); holds || !known {
		t.Error("an unknown function may hold something")
	}
	c.Add("f", section)
	changed := c.changes()
	if holds, known := c.holds("f", x.Ref(0)); holds || known {
		t.Error("without layers it is not known what they hold")
	}
	if holds, _ := c.holds("f", section); !holds {
		t.Error("its section is not its own")
	}
	c.SetLayers("f", []Layer{{empty.Digest, empty.Table}, {x.Digest, x.Table}, {empty.Digest, empty.Table}, {y.Digest, y.Table}})
	select {
	case <-changed:
	default:
		t.Error("nobody is woken")
	}
	c.Add("g")
	c.SetLayers("g", []Layer{{y.Digest, y.Table}})
	if at := c.find(y.Ref(1)); !slices.Equal(at, []position{{"f", 4}, {"g", 1}}) {
		t.Errorf("found at %v", at)
	}
	if at := c.find(section); !slices.Equal(at, []position{{"f", 0}}) {
		t.Errorf("section found at %v", at)
	}
	for what, change := range map[string]func(*block.Ref){
		"size": func(r *block.Ref) { r.Size++ }, "offset": func(r *block.Ref) { r.Offset++ }, "number": func(r *block.Ref) { r.Number++ },
		"sum": func(r *block.Ref) { r.Sum[0]++ }, "blob": func(r *block.Ref) { r.Blob = y.Digest },
		"past the end": func(r *block.Ref) { r.Number = 3 },
	} {
		ref := x.Ref(1)
		change(&ref)
		if holds, known := c.holds("f", ref); holds || !known {
			t.Errorf("holds a block with another %s", what)
		}
	}
	if refs := c.refs("f", []int{4, 0, 2, 3, 5, 1 << 20}); !slices.Equal(refs, []block.Ref{y.Ref(1), x.Ref(0), x.Ref(2), y.Ref(0)}) {
		t.Errorf("numbers are %v", refs)
	}
	for _, r := range []block.Ref{y.Ref(1), x.Ref(2), y.Ref(1)} {
		c.Touched(r)
	}
	if f, g := c.order("f"), c.order("g"); !slices.Equal(f, []int{4, 2}) || !slices.Equal(g, []int{1}) {
		t.Errorf("order %v and %v", f, g)
	}
	if n := c.Count("f", func(r block.Ref) bool { return r.Number == 0 }); n != 2 {
		t.Errorf("counted %d", n)
	}
	c.Remove("f")
	c.Remove("f")
	if at := c.find(y.Ref(1)); !slices.Equal(at, []position{{"g", 1}}) {
		t.Errorf("found at %v after the removal", at)
	}
}

func TestOptions(t *testing.T) {
	good := func() Options {
		return Options{VM: "a", Catalog: NewCatalog(), Identity: func() (string, []ed25519.PublicKey) { return "", nil }}
	}
	for name, change := range map[string]func(*Options){
		"no name": func(o *Options) { o.VM = "" }, "long name": func(o *Options) { o.VM = strings.Repeat("x", maxName+1) },
		"no catalog": func(o *Options) { o.Catalog = nil }, "no identity": func(o *Options) { o.Identity = nil },
		"negative": func(o *Options) { o.Children = -1 }, "impatient": func(o *Options) { o.Silence = DefaultKeepAlive },
	} {
		o := good()
		change(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	r := prometheus.NewRegistry()
	o := good()
	o.Registerer = r
	relay, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil || len(families) < 12 {
		t.Errorf("%d metrics, %v", len(families), err)
	}
	for p, bad := range map[*Place]bool{
		{}: false, {Epoch: 1}: true, {Epoch: 1, Stripes: make([]Stripe, maxStripes+1)}: true, {Epoch: 1, Stripes: make([]Stripe, 2)}: false,
	} {
		if err := relay.Place("f", *p); (err != nil) != bad {
			t.Errorf("place %+v: %v", p, err)
		}
	}
	if relay.Sources(block.Ref{}) != nil {
		t.Error("there is somebody to ask before it runs")
	}
}
