package registry

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

func TestRA15_RoundTrips(t *testing.T) {
	const delay = 40 * time.Millisecond
	// open reads one section of each of n layers, all at once, and returns how
	// long that took.
	open := func(t *testing.T, b *bubble, n int) time.Duration {
		t.Helper()
		repository := fmt.Sprintf("img/%d", n)
		layers := make([]layer, n)
		for i := range layers {
			layers[i] = addLayer(t, b.reg, repository, 1000+n*100+i)
		}
		s := blobs(t, b.c, host+"/"+repository)
		b.reg.Forget()
		begin := time.Now()
		var wg sync.WaitGroup
		for _, l := range layers {
			wg.Go(func() { l.read(t.Context(), t, s, 100, 500) })
		}
		wg.Wait()
		if got := b.reg.Count(registrytest.Token); got > 1 {
			t.Errorf("%d layers: %d token requests, want 1", n, got)
		}
		if got := b.reg.Count(registrytest.Blobs); got > 2*n {
			t.Errorf("%d layers: %d blob requests, want %d at most", n, got, 2*n)
		}
		return time.Since(begin)
	}
	for name, redirect := range map[string]*registrytest.Redirect{"direct": nil, "redirected": {}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, registrytest.Options{Auth: &registrytest.Auth{Users: users}, Redirect: redirect}, Options{Credentials: static("u", "p")}, func(b *bubble) {
				t := b.t
				for _, k := range []registrytest.Kind{registrytest.Blobs, registrytest.Token, registrytest.Signed} {
					b.reg.Every(registrytest.Of(k), registrytest.Fault{Delay: delay})
				}
				d32 := open(t, b, 32)
				if d32 > 10*delay {
					t.Errorf("32 layers take %v", d32)
				}
				if d64 := open(t, b, 64); d64 > d32+8*delay {
					t.Errorf("64 layers take %v, 32 took %v", d64, d32)
				}
				// A layer that is known costs one request a block.
				l := addLayer(t, b.reg, "one", 10_000)
				s := blobs(t, b.c, host+"/one")
				l.read(t.Context(), t, s, 0, 1000)
				b.reg.Forget()
				begin := time.Now()
				l.read(t.Context(), t, s, 1000, 1000)
				if d := time.Since(begin); d != delay {
					t.Errorf("a block takes %v, want one round trip of %v", d, delay)
				}
			})
		})
	}
}

// TestConnectionsAreReused: blocks read one after the other take one
// connection.
func TestConnectionsAreReused(t *testing.T) {
	for _, tls := range []registrytest.TLS{registrytest.Plain, registrytest.Secure} {
		reg := registrytest.New(t, registrytest.Options{TLS: tls, Auth: &registrytest.Auth{Users: users}})
		l := addLayer(t, reg, "a/b", 1<<20)
		o := Options{Credentials: static("u", "p"), SkipVerify: []string{reg.Host()}}
		if tls == registrytest.Plain {
			o = Options{Credentials: static("u", "p"), PlainHTTP: []string{reg.Host()}}
		}
		s := blobs(t, newClient(t, o), reg.Host()+"/a/b")
		for i := range 50 {
			l.read(t.Context(), t, s, i*1000, 1000)
		}
		if n := reg.Conns(); n != 1 {
			t.Errorf("TLS %v: %d connections for 50 blocks", tls, n)
		}
	}
}

// TestPerHost: no more blocks are read at a time than Options.PerHost.
func TestPerHost(t *testing.T) {
	inBubble(t, registrytest.Options{}, Options{PerHost: 4}, func(b *bubble) {
		t := b.t
		b.reg.Every(registrytest.Of(registrytest.Blobs), registrytest.Fault{Delay: time.Second})
		l := addLayer(t, b.reg, "a/b", 1<<16)
		s := blobs(t, b.c, host+"/a/b")
		begin := time.Now()
		burst(t, s, l, 20)
		if d := time.Since(begin); d < 5*time.Second {
			t.Errorf("20 blocks of 1 s, 4 at a time, took %v", d)
		}
	})
}
