package node

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/cmd/internal/config"
	"github.com/faasnet/faasnet/fs/index/indextest"
	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

// likeUnpacked leaves out the times of directories that containerd touches while
// it unpacks, because a layer changes them without naming them.
var likeUnpacked = indextest.Options{SkipMtime: func(path string) bool {
	return slices.Contains([]string{".", "etc", "usr", "usr/bin"}, path)
}}

// topFirst is w.dirs in the order of overlayfs.
func topFirst(dirs []string) []string {
	dirs = slices.Clone(dirs)
	slices.Reverse(dirs)
	return dirs
}

func TestImageNeedsOneFetch(t *testing.T) {
	w := newWorld(t)
	d := start(t, t.TempDir(), w.config())
	for _, l := range w.labels {
		if err := d.Claim(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	dir := d.mount(t, "c1", w.labels)
	if n := blobRequests(w); n != 1 {
		t.Errorf("%d blob requests before the first read, want 1", n)
	}
	indextest.Compare(t, overlay(t, topFirst(w.dirs)...), overlay(t, dir), likeUnpacked)
	if err := d.Release(t.Context(), "c1"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("mount is there after its last user: %v", err)
	}
	if err := d.Release(t.Context(), "c1"); err != nil {
		t.Errorf("second release: %v", err)
	}
}

// TestOtherChains mounts runs that no image section names: they are merged here.
func TestOtherChains(t *testing.T) {
	w := newWorld(t)
	d := start(t, t.TempDir(), w.config())
	middle := d.mount(t, "view", w.labels[:2])
	indextest.Compare(t, overlay(t, w.dirs[1], w.dirs[0]), overlay(t, middle), likeUnpacked)

	// Layers 2, 3 and the index layer on an unpacked layer: the whiteouts must stay.
	mixed := d.mount(t, "mixed", w.labels[1:], w.dirs[0])
	want := overlay(t, topFirst(w.dirs)...)
	indextest.Compare(t, want, overlay(t, mixed, w.dirs[0]), likeUnpacked)

	// Layer 3 on a mount of ours.
	top := d.mount(t, "top", w.labels[2:], middle)
	indextest.Compare(t, want, overlay(t, top, middle), likeUnpacked)

	t.Run("merged plans are kept", func(t *testing.T) {
		for _, user := range []string{"top", "mixed", "view"} {
			if err := d.Release(t.Context(), user); err != nil {
				t.Fatal(err)
			}
		}
		plans, err := os.ReadDir(d.merged.dir)
		if err != nil || len(plans) != 3 {
			t.Fatalf("%d plans, %v, want 3", len(plans), err)
		}
		r, err := d.run(w.labels[:2], nil)
		if err != nil {
			t.Fatal(err)
		}
		p, ok := d.merged.load(r)
		if !ok || len(p.devices) != 2 {
			t.Fatalf("plan %v, %v", p, ok)
		}
		path := d.merged.path(r)
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		content[len(content)-1] ^= 1
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, ok := d.merged.load(r); ok {
			t.Error("a damaged plan was loaded")
		}
		again := d.mount(t, "again", w.labels[:2])
		indextest.Compare(t, overlay(t, w.dirs[1], w.dirs[0]), overlay(t, again), likeUnpacked)
		if _, ok := d.merged.load(r); !ok {
			t.Error("the damaged plan was not replaced")
		}
	})
}

func TestSharedMount(t *testing.T) {
	w := newWorld(t)
	w.reg.Every(registrytest.Of(registrytest.Blobs), registrytest.Fault{Delay: 300 * time.Millisecond})
	d := start(t, t.TempDir(), w.config())
	var wg sync.WaitGroup
	var mu sync.Mutex
	dirs := map[string]int{}
	for _, user := range users(50) {
		wg.Go(func() {
			dir := d.mount(t, user, w.labels)
			if again := d.mount(t, user, w.labels); again != dir {
				t.Errorf("%s got %s, then %s", user, dir, again)
			}
			mu.Lock()
			dirs[dir]++
			mu.Unlock()
		})
	}
	wg.Wait()
	if len(dirs) != 1 {
		t.Errorf("50 users got %v, want one mount", dirs)
	}
	if n := blobRequests(w); n != 1 {
		t.Errorf("%d blob requests, want 1", n)
	}
	for dir := range dirs {
		for i, user := range users(50) {
			if err := d.Release(t.Context(), user); err != nil {
				t.Error(err)
			}
			if err := d.Release(t.Context(), user); err != nil { // once too often
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(dir, "etc")); (err != nil) != (i == 49) {
				t.Fatalf("after %d releases: %v", i+1, err)
			}
		}
	}
}

func TestGenerations(t *testing.T) {
	w := newWorld(t)
	c := w.config()
	c.BackgroundFetch = true
	d := start(t, t.TempDir(), c)
	lazy := d.mount(t, "old", w.labels)
	d.mu.Lock()
	s := d.dirs[lazy]
	d.mu.Unlock()
	if s.tree.Local() {
		t.Fatal("first mount is local")
	}
	eventually(t, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return s.outdated()
	})
	local := d.mount(t, "new", w.labels)
	if local == lazy {
		t.Error("all layers are here, and a new user got the old mount")
	}
	if again := d.mount(t, "old", w.labels); again != lazy {
		t.Errorf("the old user got %s, had %s", again, lazy)
	}
	if third := d.mount(t, "third", w.labels); third != local {
		t.Errorf("the third user got %s, want %s", third, local)
	}
	w.reg.Close()
	readFile(t, filepath.Join(local, "big"), text(1, 3<<20+100))
	readFile(t, filepath.Join(lazy, "big"), text(1, 3<<20+100))
	for _, user := range []string{"old", "new", "third"} {
		if err := d.Release(t.Context(), user); err != nil {
			t.Error(err)
		}
	}
	if d.driver.InUse() {
		t.Error("mounts are left")
	}
}

// eventually waits for what the background does.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(60 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("did not happen in 60 s")
		}
	}
}

func TestRR02_OfflineRestart(t *testing.T) {
	w := newWorld(t)
	root := t.TempDir()
	c := w.config()
	c.Fetch.Deadline = config.Duration(500 * time.Millisecond)
	d := start(t, root, c)
	dir := d.mount(t, "c1", w.labels)
	readFile(t, filepath.Join(dir, "usr/bin/tool"), text(2, 700<<10))
	if err := d.Release(t.Context(), "c1"); err != nil {
		t.Fatal(err)
	}
	d.stop()
	undo := w.reg.Every(registrytest.Of(registrytest.Blobs), registrytest.Fault{Close: true})

	d = start(t, root, c)
	dir = d.mount(t, "c1", w.labels)
	readFile(t, filepath.Join(dir, "usr/bin/tool"), text(2, 700<<10)) // was read before
	if _, err := os.ReadFile(filepath.Join(dir, "big")); !errors.Is(err, unix.EIO) {
		t.Errorf("read of what is not here: %v, want EIO", err)
	}
	undo()
	eventually(t, func() bool { // without a remount
		p, err := os.ReadFile(filepath.Join(dir, "big"))
		return err == nil && string(p) == text(1, 3<<20+100)
	})
}

func TestHungRegistry(t *testing.T) {
	w := newWorld(t)
	undo := w.reg.Every(registrytest.Of(registrytest.Blobs), registrytest.Fault{Hang: true})
	c := w.config()
	c.Fetch.Deadline = config.Duration(500 * time.Millisecond)
	d := start(t, t.TempDir(), c)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := d.Mount(ctx, "c1", w.labels, nil); !errdefs.IsUnavailable(err) {
		t.Errorf("mount with a hung registry: %v, want unavailable", err)
	}
	undo()
	eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := d.Mount(ctx, "c1", w.labels, nil)
		return err == nil
	})
}

// TestAbandonedMount: whoever waited went away before the mount was made.
func TestAbandonedMount(t *testing.T) {
	w := newWorld(t)
	w.reg.Every(registrytest.Of(registrytest.Blobs), registrytest.Fault{Delay: 200 * time.Millisecond})
	d := start(t, t.TempDir(), w.config())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := d.Mount(ctx, "c1", w.labels, nil); !errdefs.IsUnavailable(err) {
		t.Fatalf("mount: %v, want unavailable", err)
	}
	eventually(t, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.flights) == 0
	})
	eventually(t, func() bool { return !d.driver.InUse() })
	if n := blobRequests(w); n != 1 {
		t.Errorf("%d blob requests, want 1", n)
	}
	d.mount(t, "c1", w.labels)
	if n := blobRequests(w); n != 1 {
		t.Errorf("%d blob requests after the second try, want still 1", n)
	}
}

func TestClaim(t *testing.T) {
	w := newWorld(t)
	d := start(t, t.TempDir(), w.config())
	if err := d.Claim(t.Context(), map[string]string{"containerd.io/snapshot.ref": "sha256:0"}); !errdefs.IsNotFound(err) {
		t.Errorf("plain layer: %v, want not found", err)
	}
	noRef := maps.Clone(w.labels[0])
	delete(noRef, refLabel)
	for _, key := range []string{"containerd.io/snapshot/faasnet/ref", "containerd.io/snapshot/remote/stargz.reference"} {
		noRef[key] = w.reg.Host() + "/other/secret:v1" // by an annotation of the image
	}
	if err := d.Claim(t.Context(), noRef); !errdefs.IsInvalidArgument(err) {
		t.Errorf("layer without reference: %v, want invalid argument", err)
	}
	noRef[refLabel] = w.reg.Host() + "/" + repo + ":v1"
	if err := d.Claim(t.Context(), noRef); err != nil {
		t.Errorf("layer with CRI's reference: %v", err)
	}
	for _, refs := range d.origins.refs {
		if !slices.Equal(refs, []string{noRef[refLabel]}) {
			t.Errorf("the image's own word is believed: %v", refs)
		}
	}
	if n := blobRequests(w); n != 0 {
		t.Errorf("claims of layers without an image section made %d requests", n)
	}
	old := &Node{origins: d.origins, lacking: errdefs.ErrNotImplemented} // a kernel without EROFS
	if err := old.Claim(t.Context(), w.labels[0]); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "no file-backed EROFS") {
		t.Errorf("claim without EROFS: %v, want failed precondition", err)
	}
	if _, err := old.Mount(t.Context(), "c1", w.labels, nil); !errdefs.IsUnavailable(err) {
		t.Errorf("mount without EROFS: %v, want unavailable", err)
	}
}

// containerd prepares only the layers that it does not have: those that the
// second image shares keep the name of the first.
func TestRA07_SharedLayersOfAnImageThatIsGone(t *testing.T) {
	w := newWorld(t)
	d := start(t, t.TempDir(), w.config())
	labels := slices.Clone(w.labels)
	for i, l := range labels[:len(labels)-1] {
		labels[i] = maps.Clone(l)
		labels[i][refLabel] = w.reg.Host() + "/team/deleted:v1"
	}
	dir := d.mount(t, "c1", labels)
	readFile(t, filepath.Join(dir, "usr/bin/tool"), text(2, 700<<10))
}

func TestRA07_SharedLayerOfTwoRepositories(t *testing.T) {
	w := newWorld(t)
	d := start(t, t.TempDir(), w.config())
	for _, l := range w.labels { // a second image, pulled later, whose repository is gone by now
		gone := maps.Clone(l)
		gone[refLabel] = w.reg.Host() + "/team/deleted:v1"
		for _, claim := range []map[string]string{l, gone} {
			if err := d.Claim(t.Context(), claim); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, l := range w.labels {
		w.labels[i] = maps.Clone(l)
		w.labels[i][refLabel] = w.reg.Host() + "/team/deleted:v1"
	}
	dir := d.mount(t, "c1", w.labels)
	readFile(t, filepath.Join(dir, "usr/bin/tool"), text(2, 700<<10))
}

func TestRetain(t *testing.T) {
	w := newWorld(t)
	d := start(t, t.TempDir(), w.config())
	dir := d.mount(t, "c1", w.labels)
	d.mount(t, "c2", w.labels[:1])
	readFile(t, filepath.Join(dir, "big"), text(1, 3<<20+100))
	if err := d.Release(t.Context(), "c2"); err != nil {
		t.Fatal(err)
	}
	if err := d.Retain(t.Context(), w.labels); err != nil {
		t.Fatal(err)
	}
	before := d.store.Usage()
	if before.BlockBytes < 3<<20 || before.Sections != 2 {
		t.Fatalf("store holds %+v", before)
	}
	if err := d.Release(t.Context(), "c1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { // a layer being sealed is in use
		if err := d.Retain(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		u := d.store.Usage()
		return u.BlockBytes == 0 && u.SectionBytes == 0 && u.FlatBytes == 0
	})
	if plans, err := os.ReadDir(d.merged.dir); err != nil || len(plans) != 0 {
		t.Errorf("%d merged plans, %v", len(plans), err)
	}
	if len(d.origins.refs) != 0 {
		t.Errorf("origins remember %v", d.origins.refs)
	}
}

// TestCloseLeavesMountsInUse: what SIGTERM does while containers run.
func TestCloseLeavesMountsInUse(t *testing.T) {
	w := newWorld(t)
	root := t.TempDir()
	d := start(t, root, w.config())
	dir := d.mount(t, "c1", w.labels)
	d.stop()
	if _, err := os.Lstat(filepath.Join(dir, "usr/bin/tool")); err != nil {
		t.Errorf("mount in use after close: %v", err)
	}
	if _, err := d.Mount(context.Background(), "c2", w.labels[:1], nil); !errdefs.IsUnavailable(err) {
		t.Errorf("mount after close: %v", err)
	}
}

func TestContainerNames(t *testing.T) {
	for dir, want := range map[string]string{
		"/run/containerd/io.containerd.runtime.v2.task/k8s.io/0a1b/rootfs": "k8s.io/0a1b",
		"/mnt/view": "/mnt/view",
		"/rootfs":   "/rootfs",
	} {
		if got := container(dir); got != want {
			t.Errorf("%s: %s, want %s", dir, got, want)
		}
	}
}
