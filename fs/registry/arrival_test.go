package registry

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

// watched reads a block and checks that what is told of never changes.
type watched struct {
	t    *testing.T
	dst  []byte
	told []byte // as it was then
	at   []int
}

func watch(t *testing.T, size int) *watched {
	t.Helper()
	return &watched{t: t, dst: make([]byte, 0, size)}
}

func (w *watched) arrived(n int) {
	if n < len(w.told) || !bytes.Equal(w.told, w.dst[:len(w.told)]) {
		w.t.Errorf("%d bytes, after %d, or others than before", n, len(w.told))
	}
	w.told = bytes.Clone(w.dst[:n])
	w.at = append(w.at, n)
}

func (w *watched) read(s block.Source, ref block.Ref) error {
	w.t.Helper()
	p, err := s.(block.Streamer).StreamBlock(w.t.Context(), ref, w.dst, w.arrived)
	if !bytes.Equal(w.told, w.dst[:len(w.told)]) {
		w.t.Error("bytes that were told of have changed")
	}
	if err == nil && ref.Verify(p) != nil {
		w.t.Error("wrong bytes")
	}
	return err
}

func TestBlocksAreToldOfWhileTheyCome(t *testing.T) {
	const size = 256 << 10
	synctest.Test(t, func(t *testing.T) {
		var n registrytest.Net
		reg := registrytest.New(t, registrytest.Options{Listener: n.Listen("up.test:80"), Name: "up.test:80"})
		l := addLayer(t, reg, "a/b", size)
		reg.Every(registrytest.Of(registrytest.Blobs), registrytest.Fault{Rate: size})
		c := newClient(t, Options{PlainHTTP: []string{"up.test:80"}, Dial: n.DialContext})
		for name, s := range map[string]block.Source{
			"one repository":  blobs(t, c, "up.test:80/a/b"),
			"one of many":     Any(blobs(t, c, "up.test:80/a/b"), blobs(t, c, "up.test:80/c/d")),
			"second of many":  Any(blobs(t, c, "up.test:80/c/d"), blobs(t, c, "up.test:80/a/b")),
			"all at one time": Any(block.SourceFunc(l.all), blobs(t, c, "up.test:80/a/b")),
		} {
			w, began := watch(t, size), time.Now()
			if err := w.read(s, l.ref(0, size)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if d := time.Since(began); d > 0 && (len(w.at) < 4 || w.at[0] > size/4 || d > 2*time.Second) {
				t.Errorf("%s: told %v in %v", name, w.at, d)
			}
		}
	})
}

// all is a Source of blocks that do not come piece by piece.
func (l layer) all(_ context.Context, ref block.Ref, dst []byte) ([]byte, error) {
	return append(dst, l.bytes[ref.Offset:][:ref.Size]...), nil
}

// A block that breaks off is asked for again; what was told of stays as it was,
// or the read fails.
func TestToldBytesDoNotChange(t *testing.T) {
	const size = 512 << 10
	ofBlobs := registrytest.Of(registrytest.Blobs)
	for name, c := range map[string]struct {
		faults []registrytest.Fault
		want   error
	}{
		"breaks off":                          {[]registrytest.Fault{{Truncate: 300 << 10}}, nil},
		"breaks off twice":                    {[]registrytest.Fault{{Truncate: 300 << 10}, {Truncate: 400 << 10}}, nil},
		"is reset, then whole":                {[]registrytest.Fault{{Truncate: 300 << 10}, {IgnoreRange: true}}, nil},
		"bad bytes, then breaks off":          {[]registrytest.Fault{{Truncate: 300 << 10, Flip: 1000}}, errdefs.ErrDataLoss},
		"breaks off, then bad bytes":          {[]registrytest.Fault{{Truncate: 300 << 10}, {Flip: 1000}}, errdefs.ErrDataLoss},
		"breaks off, then other bytes behind": {[]registrytest.Fault{{Truncate: 100 << 10}, {Flip: 200 << 10}}, nil}, // its sum is the caller's business
	} {
		t.Run(name, func(t *testing.T) {
			reg := registrytest.New(t, registrytest.Options{})
			l := addLayer(t, reg, "a/b", 1<<20)
			reg.Next(ofBlobs, c.faults...)
			ref := l.ref(0, size)
			w := watch(t, size)
			s := blobs(t, newClient(t, fast), reg.Host()+"/a/b")
			p, err := s.(block.Streamer).StreamBlock(t.Context(), ref, w.dst, w.arrived)
			if !errors.Is(err, c.want) || err == nil && len(p) != size {
				t.Errorf("%d bytes, %v", len(p), err)
			}
			if !bytes.Equal(w.told, w.dst[:len(w.told)]) || len(w.told) == 0 {
				t.Errorf("%d bytes were told of, or they have changed", len(w.told))
			}
			if err != nil {
				if err := watch(t, size).read(s, ref); err != nil {
					t.Errorf("asked anew: %v", err)
				}
			}
		})
	}
}

// A mirror with bad bytes was told of before they were found out: the next read
// asks the other host first.
func TestBadMirrorIsNotToldOfTwice(t *testing.T) {
	const size = 128 << 10
	mirror, up := registrytest.New(t, registrytest.Options{}), registrytest.New(t, registrytest.Options{})
	l := addLayer(t, up, "a/b", 1<<20)
	addLayer(t, mirror, "a/b", 1<<20)
	mirror.Every(registrytest.Of(registrytest.Blobs), registrytest.Fault{Flip: 1000})
	o := fast
	o.HostsDirs = []string{hostsToml(t, "up.test", "server = \""+up.URL()+"\"\n[host.\""+mirror.URL()+"\"]\n")}
	s := blobs(t, newClient(t, o), "up.test/a/b")
	if err := watch(t, size).read(s, l.ref(0, size)); !errdefs.IsDataLoss(err) {
		t.Errorf("got %v", err)
	}
	if err := watch(t, size).read(s, l.ref(0, size)); err != nil {
		t.Error(err)
	}
	if n := mirror.Count(registrytest.Blobs); n != 1 {
		t.Errorf("the mirror was asked %d times", n)
	}
}
