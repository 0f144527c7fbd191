package registry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

func TestRA10_Timeouts(t *testing.T) {
	const size = 512 << 10
	ofBlobs := registrytest.Of(registrytest.Blobs)
	run := func(t *testing.T, o Options, f func(b *bubble, l layer, s reader)) {
		t.Helper()
		inBubble(t, registrytest.Options{}, o, func(b *bubble) {
			t := b.t
			l := addLayer(t, b.reg, "a/b", size)
			f(b, l, blobs(t, b.c, host+"/a/b"))
		})
	}
	took := func(t *testing.T, least, most time.Duration, f func()) {
		t.Helper()
		begin := time.Now()
		f()
		if d := time.Since(begin); d < least || d > most {
			t.Errorf("took %v, want %v to %v", d, least, most)
		}
	}

	t.Run("(a) slow but alive", func(t *testing.T) {
		run(t, Options{}, func(b *bubble, l layer, s reader) {
			t := b.t
			b.reg.Every(ofBlobs, registrytest.Fault{Rate: 100 << 10})
			took(t, 5*time.Second, 6*time.Second, func() { l.read(t.Context(), t, s, 0, size) })
			if n := b.reg.Count(registrytest.Blobs); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	})
	t.Run("(a) slower than an idle timeout altogether", func(t *testing.T) {
		run(t, Options{}, func(b *bubble, l layer, s reader) {
			t := b.t
			b.reg.Every(ofBlobs, registrytest.Fault{Rate: 12 << 10})
			took(t, 40*time.Second, 50*time.Second, func() { l.read(t.Context(), t, s, 0, size) })
		})
	})
	t.Run("(a) slow, and the whole blob", func(t *testing.T) {
		run(t, Options{}, func(b *bubble, l layer, s reader) {
			t := b.t
			b.reg.Every(ofBlobs, registrytest.Fault{Rate: 12 << 10, IgnoreRange: true})
			took(t, 40*time.Second, 50*time.Second, func() { l.read(t.Context(), t, s, size-100, 100) })
			if n := b.reg.Count(registrytest.Blobs); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	})
	t.Run("(b) headers after 25 s", func(t *testing.T) {
		run(t, Options{}, func(b *bubble, l layer, s reader) {
			t := b.t
			b.reg.Next(ofBlobs, registrytest.Fault{Delay: 25 * time.Second})
			took(t, 10*time.Second, 11*time.Second, func() { l.read(t.Context(), t, s, 0, size) })
			if n := b.reg.Count(registrytest.Blobs); n != 2 {
				t.Errorf("%d requests, want 2", n)
			}
		})
	})
	for name, f := range map[string]registrytest.Fault{
		"(c) never answers":       {Hang: true},
		"(d) stalls after 10 KiB": {Stall: 10 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, Options{Attempts: 1}, func(b *bubble, l layer, s reader) {
				t := b.t
				b.reg.Every(ofBlobs, f)
				took(t, 10*time.Second, 12*time.Second, func() { fails(t, s, l, size) })
			})
			run(t, Options{}, func(b *bubble, l layer, s reader) {
				t := b.t
				b.reg.Every(ofBlobs, f)
				took(t, 59*time.Second, time.Minute, func() { fails(t, s, l, size) }) // Options.Budget
				if n := b.reg.Count(registrytest.Blobs); n < 5 || n > 6 {
					t.Errorf("%d attempts in a minute", n)
				}
			})
		})
	}
	t.Run("connect", func(t *testing.T) {
		run(t, Options{Attempts: 1, PlainHTTP: []string{"dead.test:80"}}, func(b *bubble, l layer, _ reader) {
			t := b.t
			b.net.Blackhole("dead.test:80")
			s := blobs(t, b.c, "dead.test:80/a/b")
			took(t, 3*time.Second, 3*time.Second, func() { fails(t, s, l, size) })
		})
	})
	t.Run("(c) on loopback, where TLS is tried first", func(t *testing.T) {
		run(t, Options{Attempts: 1}, func(b *bubble, l layer, _ reader) {
			t := b.t
			const addr = "127.0.0.1:5000"
			lis := b.net.Listen(addr)
			defer lis.Close()
			go func() {
				for {
					c, err := lis.Accept()
					if err != nil {
						return
					}
					defer c.Close()
				}
			}()
			s := blobs(t, b.c, addr+"/a/b")
			took(t, 10*time.Second, 12*time.Second, func() { fails(t, s, l, size) })
		})
	})
	t.Run("20 readers of a host that never answers do not queue", func(t *testing.T) {
		run(t, Options{Attempts: 1}, func(b *bubble, l layer, s reader) {
			t := b.t
			b.reg.Every(ofBlobs, registrytest.Fault{Hang: true})
			took(t, 10*time.Second, 12*time.Second, func() {
				done := make(chan bool)
				for range 20 {
					go func() { fails(t, s, l, size); done <- true }()
				}
				for range 20 {
					<-done
				}
			})
		})
	})
	t.Run("caller leaves", func(t *testing.T) {
		run(t, Options{}, func(b *bubble, l layer, s reader) {
			t := b.t
			b.reg.Every(ofBlobs, registrytest.Fault{Stall: 1000})
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			took(t, 2*time.Second, 2*time.Second, func() {
				if _, err := s.ReadBlock(ctx, l.ref(0, size), nil); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
			})
			synctest.Wait()
			for _, q := range b.reg.Requests() {
				if !q.Done {
					t.Error("the request went on after its caller had left")
				}
			}
		})
	})
	t.Run("token server never answers", func(t *testing.T) {
		inBubble(t, registrytest.Options{Auth: &registrytest.Auth{Users: users}}, Options{Credentials: static("u", "p")}, func(b *bubble) {
			t := b.t
			l := addLayer(t, b.reg, "a/b", size)
			b.reg.Every(registrytest.Of(registrytest.Token), registrytest.Fault{Hang: true})
			took(t, 50*time.Second, time.Minute, func() { fails(t, blobs(t, b.c, host+"/a/b"), l, size) })
		})
	})
}

func fails(t *testing.T, s reader, l layer, size int) {
	t.Helper()
	p, err := s.ReadBlock(t.Context(), l.ref(0, size), nil)
	if !errdefs.IsUnavailable(err) || len(p) != 0 {
		t.Errorf("got %d bytes, %v", len(p), err)
	}
}

func TestCloseEndsReads(t *testing.T) {
	inBubble(t, registrytest.Options{}, Options{}, func(b *bubble) {
		t := b.t
		b.reg.Every(registrytest.Of(registrytest.Blobs), registrytest.Fault{IgnoreRange: true, Rate: 1000})
		l := addLayer(t, b.reg, "a/b", 1<<20)
		s := blobs(t, b.c, host+"/a/b")
		l.read(t.Context(), t, s, 0, 1000) // a stream goes on behind it
		if err := errors.Join(b.c.Close(), b.c.Close()); err != nil {
			t.Error(err)
		}
		begin := time.Now()
		fails(t, s, l, 5000)
		if d := time.Since(begin); d > time.Second {
			t.Errorf("read after Close took %v", d)
		}
		if _, err := b.c.Blobs("a"); !errdefs.IsUnavailable(err) {
			t.Errorf("Blobs after Close: %v", err)
		}
	})
}

func TestCloseInTheMiddle(t *testing.T) {
	for name, f := range map[string]registrytest.Fault{"headers": {Hang: true}, "body": {Stall: 100}, "stream": {Stall: 100, IgnoreRange: true}, "pause": {Status: 429}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, registrytest.Options{}, Options{}, func(b *bubble) {
				t := b.t
				b.reg.Every(registrytest.Of(registrytest.Blobs), f)
				l := addLayer(t, b.reg, "a/b", 1<<20)
				s := blobs(t, b.c, host+"/a/b")
				begin := time.Now()
				done := make(chan bool)
				go func() { fails(t, s, l, 5000); close(done) }()
				time.Sleep(500 * time.Millisecond)
				if err := b.c.Close(); err != nil {
					t.Error(err)
				}
				<-done
				if d := time.Since(begin); d > time.Second {
					t.Errorf("read ended %v after it began, Close was at 0.5 s", d)
				}
			})
		})
	}
}

func TestStreamStopsWhenNobodyReads(t *testing.T) {
	inBubble(t, registrytest.Options{}, Options{}, func(b *bubble) {
		t := b.t
		b.reg.Every(registrytest.Of(registrytest.Blobs), registrytest.Fault{IgnoreRange: true, Rate: 10 << 10})
		l := addLayer(t, b.reg, "a/b", 1<<20)
		s := blobs(t, b.c, host+"/a/b")
		l.read(t.Context(), t, s, 0, 1000)
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if q := b.reg.Requests()[0]; !q.Done {
			t.Error("a blob that nobody reads is still streamed after 15 s")
		}
		l.read(t.Context(), t, s, 50<<10, 1000) // what has passed is kept
		if n := b.reg.Count(registrytest.Blobs); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
	})
}
