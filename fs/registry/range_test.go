package registry

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

// fast makes retries quick where real time passes.
var fast = Options{Backoff: 1, MaxBackoff: 1e6}

func TestRA01_RangeIgnored(t *testing.T) {
	const size, block = 40 << 20, 512 << 10
	for _, concurrent := range []bool{false, true} {
		t.Run(fmt.Sprintf("concurrent=%v", concurrent), func(t *testing.T) {
			reg := registrytest.New(t, registrytest.Options{})
			reg.Every(registrytest.Of(registrytest.Blobs), registrytest.Fault{IgnoreRange: true})
			l := addLayer(t, reg, "a/b", size)
			s := blobs(t, newClient(t, fast), reg.Host()+"/a/b")
			var wg sync.WaitGroup
			for _, i := range []int{70, 3, 79, 0, 12, 40, 41, 55, 1, 78} {
				read := func() { l.read(t.Context(), t, s, i*block, block) }
				if concurrent {
					wg.Go(read)
				} else {
					read()
				}
			}
			wg.Wait()
			if n := reg.TotalBytes(); n > size*12/10 {
				t.Errorf("registry sent %d bytes for a blob of %d", n, size)
			}
		})
	}

	t.Run("no room in the spool", func(t *testing.T) {
		reg := registrytest.New(t, registrytest.Options{})
		reg.Every(registrytest.Of(registrytest.Blobs), registrytest.Fault{IgnoreRange: true})
		l := addLayer(t, reg, "a/b", 4<<20)
		o := fast
		o.SpoolBytes = 1 << 20
		s := blobs(t, newClient(t, o), reg.Host()+"/a/b")
		for _, off := range []int{3 << 20, 0, 1 << 20} {
			l.read(t.Context(), t, s, off, block)
		}
	})

	t.Run("stream cut short goes on", func(t *testing.T) {
		reg := registrytest.New(t, registrytest.Options{})
		reg.Next(registrytest.Of(registrytest.Blobs),
			registrytest.Fault{IgnoreRange: true, Truncate: 1<<20 + 12345},
			registrytest.Fault{IgnoreRange: true, Truncate: 3<<20 + 777})
		reg.Every(registrytest.Of(registrytest.Blobs), registrytest.Fault{IgnoreRange: true})
		l := addLayer(t, reg, "a/b", 4<<20)
		s := blobs(t, newClient(t, fast), reg.Host()+"/a/b")
		for _, off := range []int{3<<20 + block, 0, 1 << 20, 3 << 20} { // the last two lie across the cuts
			l.read(t.Context(), t, s, off, block)
		}
		if n := reg.Count(registrytest.Blobs); n != 3 {
			t.Errorf("%d requests, want 3", n)
		}
	})

	t.Run("bad bytes in the stream are not kept", func(t *testing.T) {
		reg := registrytest.New(t, registrytest.Options{})
		reg.Next(registrytest.Of(registrytest.Blobs), registrytest.Fault{IgnoreRange: true, Flip: 100})
		reg.Every(registrytest.Of(registrytest.Blobs), registrytest.Fault{IgnoreRange: true})
		l := addLayer(t, reg, "a/b", 4<<20)
		s := blobs(t, newClient(t, fast), reg.Host()+"/a/b")
		if _, err := s.ReadBlock(t.Context(), l.ref(0, block), nil); !errdefs.IsDataLoss(err) {
			t.Errorf("bad bytes: %v", err)
		}
		l.read(t.Context(), t, s, 0, block)
		if n := reg.Count(registrytest.Blobs); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
	})

	t.Run("wrong Content-Range", func(t *testing.T) {
		reg := registrytest.New(t, registrytest.Options{})
		reg.Next(registrytest.Of(registrytest.Blobs),
			registrytest.Fault{ContentRange: "bytes 0-524287/4194304"},
			registrytest.Fault{Shift: 1},
			registrytest.Fault{Shift: block},
			registrytest.Fault{ContentRange: " "},
			registrytest.Fault{Extra: 1, Chunked: true},
			registrytest.Fault{ContentRange: "bytes 524288-1048574/4194304"})
		l := addLayer(t, reg, "a/b", 4<<20)
		s := blobs(t, newClient(t, fast), reg.Host()+"/a/b")
		l.read(t.Context(), t, s, block, block)
		if n := reg.Count(registrytest.Blobs); n != 7 {
			t.Errorf("%d requests, want 7", n)
		}
	})
}

func TestRA11_TruncatedBody(t *testing.T) {
	type variant struct {
		f   registrytest.Fault
		tls registrytest.TLS
	}
	for name, v := range map[string]variant{
		"declared":          {f: registrytest.Fault{Truncate: 300 << 10}},
		"chunked":           {f: registrytest.Fault{Truncate: 300 << 10, Chunked: true}},
		"reset":             {f: registrytest.Fault{Reset: true}},
		"declared, HTTP/2":  {registrytest.Fault{Truncate: 300 << 10}, registrytest.Secure},
		"no length, HTTP/2": {registrytest.Fault{Truncate: 300 << 10, Chunked: true}, registrytest.Secure},
	} {
		f := v.f
		t.Run(name, func(t *testing.T) {
			reg := registrytest.New(t, registrytest.Options{TLS: v.tls})
			l := addLayer(t, reg, "a/b", 1<<20)
			undo := reg.Every(registrytest.Of(registrytest.Blobs), f)
			o := fast
			o.Attempts = 3
			s := blobs(t, newClient(t, o), reg.Host()+"/a/b")
			dst := []byte("kept")
			dst, err := s.ReadBlock(t.Context(), l.ref(0, 512<<10), dst)
			if !errdefs.IsUnavailable(err) || string(dst) != "kept" {
				t.Errorf("got %q, %v", dst, err)
			}
			// The transport repeats a request by itself when a connection that was
			// idle is reset: at least as many as we made.
			if n := reg.Count(registrytest.Blobs); n < 3 {
				t.Errorf("%d requests, want 3 fresh ones", n)
			}
			undo()
			l.read(t.Context(), t, s, 0, 512<<10)
		})
	}
}

func TestShorterBlobThanTheBlockSays(t *testing.T) {
	reg := registrytest.New(t, registrytest.Options{})
	l := addLayer(t, reg, "a/b", 1000)
	s := blobs(t, newClient(t, fast), reg.Host()+"/a/b")
	for name, ref := range map[string]block.Ref{
		"ends early":    {Blob: l.digest, Offset: 500, Size: 600},
		"begins behind": {Blob: l.digest, Offset: 1000, Size: 1},
	} {
		reg.Forget()
		if _, err := s.ReadBlock(t.Context(), ref, nil); !errdefs.IsDataLoss(err) {
			t.Errorf("%s: %v", name, err)
		}
		if n := reg.Count(registrytest.Blobs); n != 1 {
			t.Errorf("%s: %d requests, want 1", name, n)
		}
	}
	for name, ref := range map[string]block.Ref{
		"no size":   {Blob: l.digest},
		"too large": {Blob: l.digest, Size: block.MaxSection + 1},
		"negative":  {Blob: l.digest, Size: 1, Offset: -1},
		"no digest": {Size: 1},
	} {
		if _, err := s.ReadBlock(t.Context(), ref, nil); !errors.Is(err, errdefs.ErrInvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
