package node

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/faasnet/faasnet/cmd/internal/coordinator"
	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

// left fails unless nothing of any image is kept, as soon as all that was under way
// has ended.
func (w *world) left(t *testing.T, d *daemon) {
	t.Helper()
	d.idle(t)
	eventually(t, func() bool {
		for _, q := range w.reg.Requests() {
			if !q.Done {
				return false
			}
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.flights) == 0
	})
	eventually(t, func() bool {
		u := d.store.Usage()
		return u.BlockBytes == 0 && u.SectionBytes == 0 && u.Flats == 0 && u.FlatBytes == 0
	})
	d.stop() // waits for the rest
	for _, dir := range []string{"blocks", "sections", "blobs", "flat"} {
		if names, err := os.ReadDir(filepath.Join(d.root, "store", dir)); err != nil || len(names) != 0 {
			t.Errorf("%d files stay in %s, %v", len(names), dir, err)
		}
	}
	if len(d.origins.refs)+len(d.listed)+len(d.starts.known) != 0 {
		t.Errorf("still known: %v, %v, %v", d.origins.refs, d.listed, d.starts.known)
	}
}

// An image is removed, and Retain says so once, while its blocks come: nothing of it
// stays, neither what was there before nor what comes afterwards.
func TestGD01_RemovedWhileFetched(t *testing.T) {
	slow := registrytest.Fault{Delay: 30 * time.Millisecond, Rate: 4 << 20}
	for _, where := range []string{"alone", "in a tree"} {
		t.Run("start layer "+where, func(t *testing.T) {
			w := newStart(t)
			c := w.config()
			if where == "in a tree" {
				c = w.inTree(t, "vm", coordinate(t, coordinator.Options{}))
			}
			w.reg.Every(registrytest.Of(registrytest.Blobs), slow)
			d := start(t, t.TempDir(), c)
			d.pulled(t, w.labels)
			eventually(t, func() bool { return d.store.Usage().Blocks >= 3 })
			if err := d.Retain(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			w.left(t, d)
		})
	}
	t.Run("image section", func(t *testing.T) {
		w := newWorld(t)
		w.reg.Every(registrytest.Of(registrytest.Blobs), registrytest.Fault{Delay: 200 * time.Millisecond})
		d := start(t, t.TempDir(), w.config())
		d.pulled(t, w.labels)
		eventually(t, func() bool { return blobRequests(w) > 0 })
		if err := d.Retain(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		w.left(t, d)
	})
}

// The same after a container, with the background fill at work.
func TestGD06_RemovedWhileFilled(t *testing.T) {
	before := log.L.Logger.ReplaceHooks(logrus.LevelHooks{})
	defer log.L.Logger.ReplaceHooks(before)
	said := logtest.NewLocal(log.L.Logger)
	for _, order := range []string{"container first", "image first"} {
		t.Run(order, func(t *testing.T) {
			w := newWorld(t)
			c := w.config()
			c.BackgroundFetch = true
			w.reg.Every(registrytest.Of(registrytest.Blobs), registrytest.Fault{Rate: 1 << 20})
			d := start(t, t.TempDir(), c)
			d.pulled(t, w.labels)
			dir := d.mount(t, "c1", w.labels)
			readFile(t, filepath.Join(dir, "gone/new"), text(3, 100<<10))
			had := d.store.Usage().Blocks
			eventually(t, func() bool { return d.store.Usage().Blocks > had }) // the fill has begun
			release := func() {
				if err := d.Release(t.Context(), "c1"); err != nil {
					t.Error(err)
				}
			}
			if order == "container first" {
				release()
			}
			if err := d.Retain(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			if order == "image first" { // as when a release takes longer than Cleanup waits
				release()
			}
			w.left(t, d)
		})
	}
	for _, e := range said.AllEntries() {
		if e.Message == "background fill stopped, will go on later" {
			t.Errorf("the log says %q of a removed image: %v", e.Message, e.Data)
		}
	}
}

// An image goes while it is being mounted, and the one who waits for that, too.
func TestGD06_RemovedWhileMounted(t *testing.T) {
	w := newWorld(t)
	w.reg.Every(registrytest.Of(registrytest.Blobs), registrytest.Fault{Delay: 300 * time.Millisecond})
	d := start(t, t.TempDir(), w.config())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := d.Mount(ctx, "c1", w.labels[:2], nil); !errdefs.IsUnavailable(err) {
		t.Fatalf("mount: %v", err)
	}
	if err := d.Retain(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	w.left(t, d)
}

// Of two images that share a layer, one goes: the other is whole.
func TestGD01_SharedLayerStays(t *testing.T) {
	w := newWorld(t)
	d := start(t, t.TempDir(), w.config())
	d.pulled(t, w.labels)
	base := w.labels[:1]
	dir := d.mount(t, "c1", w.labels)
	readFile(t, filepath.Join(dir, "big"), text(1, 3<<20+100))
	readFile(t, filepath.Join(dir, "usr/bin/tool"), text(2, 700<<10))
	all := d.store.Usage()
	if err := d.Release(t.Context(), "c1"); err != nil {
		t.Fatal(err)
	}
	if err := d.Retain(t.Context(), base); err != nil {
		t.Fatal(err)
	}
	if u := d.store.Usage(); u.BlockBytes < 3<<20 || u.BlockBytes >= all.BlockBytes {
		t.Errorf("store holds %+v, of %+v", u, all)
	}
	dir = d.mount(t, "c2", base)
	asked := len(w.offsets(w.digest(0)))
	readFile(t, filepath.Join(dir, "big"), text(1, 3<<20+100))
	if n := len(w.offsets(w.digest(0))); n != asked {
		t.Errorf("%d requests for blocks that are here", n-asked)
	}
}
