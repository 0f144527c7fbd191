package registry

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

// bubble is a registry named reg.test:5000 and a client of it, in virtual time.
type bubble struct {
	t   *testing.T // of the bubble
	net registrytest.Net
	reg *registrytest.Registry
	c   *Client
}

const host = "reg.test:5000"

// inBubble runs f in virtual time. The registry's blobs, if redirected, are at
// data.test:80.
func inBubble(t *testing.T, ro registrytest.Options, co Options, f func(b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{t: t}
		ro.Listener, ro.Name = b.net.Listen(host), host
		if ro.Redirect != nil {
			ro.Redirect.Listener, ro.Redirect.Name = b.net.Listen("data.test:80"), "data.test:80"
		}
		b.reg = registrytest.New(t, ro)
		co.PlainHTTP, co.Dial = append(co.PlainHTTP, host), b.net.DialContext
		b.c = newClient(t, co)
		f(b)
	})
}

func TestRA02_RedirectsAreCachedAndRefreshed(t *testing.T) {
	const size = 64 << 10
	t.Run("URL good for 2 s, a block every 0.5 s for 10 s", func(t *testing.T) {
		inBubble(t, registrytest.Options{Redirect: &registrytest.Redirect{TTL: 2 * time.Second}}, Options{}, func(b *bubble) {
			t := b.t
			l := addLayer(t, b.reg, "a/b", 21*size)
			s := blobs(t, b.c, host+"/a/b")
			for i := range 20 {
				l.read(t.Context(), t, s, i*size, size)
				time.Sleep(500 * time.Millisecond)
			}
			if n := b.reg.Count(registrytest.Blobs); n < 4 || n > 6 {
				t.Errorf("%d requests to the registry in 10 s, want about 5", n)
			}
		})
	})

	t.Run("20 readers at the end of the URL", func(t *testing.T) {
		inBubble(t, registrytest.Options{Redirect: &registrytest.Redirect{TTL: 2 * time.Second}}, Options{}, func(b *bubble) {
			t := b.t
			l := addLayer(t, b.reg, "a/b", 40*size)
			s := blobs(t, b.c, host+"/a/b")
			for round := range 2 {
				b.reg.Forget()
				var wg sync.WaitGroup
				for i := range 20 {
					wg.Go(func() { l.read(t.Context(), t, s, (20*round+i)*size, size) })
				}
				wg.Wait()
				if n := b.reg.Count(registrytest.Blobs); n != 1 {
					t.Errorf("round %d: %d requests to the registry, want 1", round, n)
				}
				time.Sleep(3 * time.Second)
			}
		})
	})

	t.Run("403 for a fresh URL too: one refresh, then an error", func(t *testing.T) {
		inBubble(t, registrytest.Options{Redirect: &registrytest.Redirect{}}, Options{}, func(b *bubble) {
			t := b.t
			l := addLayer(t, b.reg, "a/b", 2*size)
			s := blobs(t, b.c, host+"/a/b")
			l.read(t.Context(), t, s, 0, size)
			b.reg.Forget()
			b.reg.Every(registrytest.Of(registrytest.Signed), registrytest.Fault{Status: 403})
			if _, err := s.ReadBlock(t.Context(), l.ref(size, size), nil); err == nil {
				t.Error("no error")
			}
			if n := b.reg.Count(registrytest.Blobs); n != 1 {
				t.Errorf("%d requests to the registry, want 1", n)
			}
		})
	})

	for hops, ok := range map[int]bool{3: true, 10: true, 11: false} {
		t.Run(fmt.Sprintf("chain of %d", hops), func(t *testing.T) {
			inBubble(t, registrytest.Options{Redirect: &registrytest.Redirect{Hops: hops}}, Options{}, func(b *bubble) {
				t := b.t
				l := addLayer(t, b.reg, "a/b", 2*size)
				s := blobs(t, b.c, host+"/a/b")
				_, err := s.ReadBlock(t.Context(), l.ref(0, size), nil)
				if (err == nil) != ok {
					t.Fatalf("%d hops: %v", hops, err)
				}
				if !ok {
					return
				}
				n := len(b.reg.Data().Requests())
				l.read(t.Context(), t, s, size, size)
				if n = len(b.reg.Data().Requests()) - n; n != 1 {
					t.Errorf("%d hops: second block takes %d requests, want 1", hops, n)
				}
			})
		})
	}
}

func TestExpiryOfSignedURLs(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for raw, want := range map[string]time.Time{
		"https://s3/x?X-Amz-Date=20261130T120000Z&X-Amz-Expires=900":   at.Add(900 * time.Second),
		"https://gcs/x?X-Goog-Date=20261130T120000Z&X-Goog-Expires=60": at.Add(time.Minute),
		"https://cf/x?Expires=1796040000&Signature=x":                  time.Unix(1796040000, 0),
		"https://az/x?se=2026-11-30T12%3A00%3A00Z&sig=x":               at,
		"https://any/x?Expires=soon":                                   {},
		"https://any/x?X-Amz-Date=20261130T120000Z":                    {},
		"https://any/x": {},
	} {
		if got := expiry(mustURL(t, raw)); !got.Equal(want) {
			t.Errorf("%s: %v, want %v", raw, got, want)
		}
	}
}

func TestURLKnownToHaveEndedIsNotAsked(t *testing.T) {
	b := &blob{}
	b.settle(mustURL(t, "https://s3/x?X-Amz-Date=20200101T000000Z&X-Amz-Expires=900"), nil)
	if at, _, first, err := b.locate(t.Context()); at != nil || !first || err != nil {
		t.Errorf("got %v, %v, %v", at, first, err)
	}
}

var _ block.Source = (*repository)(nil)
