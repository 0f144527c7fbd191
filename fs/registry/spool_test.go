package registry

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

// TestSpoolIsBounded: whole blobs that nobody reads make room, and go after a
// while; files are never to be seen in the directory.
func TestSpoolIsBounded(t *testing.T) {
	dir := t.TempDir()
	o := Options{SpoolDir: dir, SpoolBytes: 3 << 20}
	inBubble(t, registrytest.Options{}, o, func(b *bubble) {
		t := b.t
		b.reg.Every(registrytest.Of(registrytest.Blobs), registrytest.Fault{IgnoreRange: true})
		s := blobs(t, b.c, host+"/a/b")
		var layers []layer
		for i := range 5 {
			l := addLayer(t, b.reg, "a/b", 1<<20+i)
			l.read(t.Context(), t, s, 1000, 1000)
			synctest.Wait() // the rest has passed
			layers = append(layers, l)
		}
		if n := b.c.spool.bytes; n > o.SpoolBytes || len(b.c.spool.all) != 2 {
			t.Errorf("%d blobs of %d bytes are kept, limit %d", len(b.c.spool.all), n, o.SpoolBytes)
		}
		b.reg.Forget()
		layers[4].read(t.Context(), t, s, 0, 1000) // kept
		layers[0].read(t.Context(), t, s, 0, 1000) // made room
		if n := b.reg.Count(registrytest.Blobs); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
		if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
			t.Errorf("files in the spool's directory: %v, %v", names, err)
		}
		time.Sleep(2*keepSpooled + time.Second)
		b.c.spool.mu.Lock()
		if n := len(b.c.spool.all); n != 0 || b.c.spool.bytes != 0 {
			t.Errorf("%d blobs, %d bytes are kept that nobody reads", n, b.c.spool.bytes)
		}
		b.c.spool.mu.Unlock()
		layers[4].read(t.Context(), t, s, 0, 1000)
	})
}

func TestSpoolWithoutDirectory(t *testing.T) {
	reg := registrytest.New(t, registrytest.Options{})
	reg.Every(registrytest.Of(registrytest.Blobs), registrytest.Fault{IgnoreRange: true})
	l := addLayer(t, reg, "a/b", 1<<16)
	s := blobs(t, newClient(t, Options{SpoolDir: "/nonexistent"}), reg.Host()+"/a/b")
	l.read(t.Context(), t, s, 1000, 1000)
}
