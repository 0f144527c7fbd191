package node

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

// TestChurn mounts, reads, releases and collects at random, with a registry that
// fails now and then, and looks for what is left.
func TestChurn(t *testing.T) {
	w := newWorld(t)
	c := w.config()
	c.BackgroundFetch = true
	d := start(t, t.TempDir(), c)
	descriptors := func() (n int) { // without those of connections, which are kept for a while
		l, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range l {
			if name, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name())); err == nil && !strings.HasPrefix(name, "socket:") {
				n++
			}
		}
		return n
	}
	first := d.mount(t, "first", w.labels)
	readFile(t, filepath.Join(first, "usr/bin/tool"), text(2, 700<<10))
	if err := d.Release(t.Context(), "first"); err != nil {
		t.Fatal(err)
	}
	before := descriptors()
	runs := []struct {
		labels []map[string]string
		lower  []string
		file   string
		want   string
	}{
		{w.labels, nil, "usr/bin/tool", text(2, 700<<10)},
		{w.labels[:2], nil, "usr/bin/alias", text(2, 700<<10)},
		{w.labels[2:], topFirst(w.dirs[:2]), "gone/new", text(3, 100<<10)},
	}
	var wg sync.WaitGroup
	for i, user := range users(6) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for range 25 {
				run := runs[r.IntN(len(runs))]
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(100))*time.Millisecond)
				dir, err := d.Mount(ctx, user, run.labels, run.lower)
				cancel()
				switch {
				case err == nil:
					readFile(t, filepath.Join(dir, run.file), run.want)
				case !errdefs.IsUnavailable(err):
					t.Errorf("mount: %v", err)
				}
				switch r.IntN(4) {
				case 0:
					w.reg.Next(registrytest.Of(registrytest.Blobs), registrytest.Fault{Status: 503})
				case 1:
					if err := d.Retain(t.Context(), w.labels[:r.IntN(len(w.labels)+1)]); err != nil {
						t.Errorf("retain: %v", err)
					}
				}
				if err := d.Release(t.Context(), user); err != nil {
					t.Errorf("release: %v", err)
				}
			}
		})
	}
	wg.Wait()
	eventually(t, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.flights) == 0
	})
	eventually(t, func() bool { return !d.driver.InUse() && descriptors() <= before+10 })
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.mounts)+len(d.dirs)+len(d.users)+len(d.dying) > 0 {
		t.Errorf("left: mounts %v, directories %v, users %v, dying %v", d.mounts, d.dirs, d.users, d.dying)
	}
}
