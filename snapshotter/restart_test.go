package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/fs/index/indextest"
	"github.com/faasnet/faasnet/snapshotter/snapshottertest"
)

// A daemon mounts nothing at its start, however many snapshots there are: it answers at once, and mounts what is used.
func TestRR04_RestartMountsOnUse(t *testing.T) {
	w := newWorld(t)
	img := w.lazily(build(t, threeLayers()...), all)
	w.must(w.pull("default", img))
	before, err := w.sn.Prepare(in("default"), "run", img.top())
	w.must(err)
	w.restart()
	if n := w.m.Calls("Mount") + w.m.Calls("Claim"); n != 0 {
		t.Errorf("%d calls of the Mounter at start", n)
	}
	mounts, err := w.sn.Mounts(in("default"), "run")
	w.must(err)
	if a, b := lowerDirs(before)[0], lowerDirs(mounts)[0]; a == b {
		t.Errorf("mount of the dead daemon is used again: %s", a)
	}
	indextest.Compare(t, reference(t, img), mountAt(t, mounts), unstable)
}

func TestRR07_RemoveTwiceLeavesTheOtherAlone(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("RR-07 restart between %v", restart), func(t *testing.T) {
			w := newWorld(t)
			img := w.lazily(build(t, threeLayers()...), all)
			w.must(w.pull("default", img))
			ctx := context.Background()
			var mounts string
			for _, key := range []string{"a", "b"} {
				m, err := w.s.Prepare(ctx, key, img.top())
				w.must(err)
				mounts = lowerDirs(m)[0]
			}
			w.must(w.s.Remove(ctx, "a"))
			if restart {
				w.restart()
				m, err := w.s.Mounts(ctx, "b")
				w.must(err)
				mounts = lowerDirs(m)[0]
			}
			if err := w.s.Remove(ctx, "a"); !errdefs.IsNotFound(err) {
				t.Errorf("second Remove: %v", err)
			}
			for range 2 {
				w.must(w.s.(snapshots.Cleaner).Cleanup(ctx))
			}
			if runs, users := w.m.Mounted(); runs != 1 || users != 1 {
				t.Errorf("%d runs for %d users", runs, users)
			}
			if b, err := os.ReadFile(filepath.Join(mounts, "top")); err != nil || string(b) != "top" {
				t.Errorf("the other snapshot reads %q, %v", b, err)
			}
			w.must(w.s.Remove(ctx, "b"))
			w.must(w.s.(snapshots.Cleaner).Cleanup(ctx))
			if runs, users := w.m.Mounted(); runs != 0 || users != 0 {
				t.Errorf("left %d runs for %d users", runs, users)
			}
		})
	}
}

// TestRR08_OneBrokenRecord breaks what is stored of one layer in several ways; another image must not notice.
func TestRR08_OneBrokenRecord(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(w *world, layer string)
		heals bool
	}{
		{"RR-08 place of a remote layer lost", func(w *world, layer string) {
			w.must(os.RemoveAll(filepath.Dir(w.s.(*snapshotter).tree(w.idOf(layer)))))
		}, true},
		{"RR-08 labels no longer known", func(w *world, layer string) {
			info, err := w.s.Stat(context.Background(), layer)
			w.must(err)
			delete(w.m.Layers, info.Labels[snapshottertest.LabelLayer])
		}, false},
		{"RR-08 remote mark lost", func(w *world, layer string) {
			s := w.s.(*snapshotter)
			_, err := s.Snapshotter.Update(context.Background(), snapshots.Info{Name: layer}, "labels")
			w.must(err)
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			ctx := context.Background()
			broken := w.lazily(build(t, threeLayers()[:2]...), all)
			other := w.lazily(build(t, tarOf(header{Name: "x", Body: "x"}), tarOf(header{Name: "y", Body: "y"})), all)
			w.must(w.pull("default", broken))
			w.must(w.pull("default", other))
			_, err := w.s.Prepare(ctx, "old", broken.top())
			w.must(err)
			c.spoil(w, broken.top())
			w.restart()

			_, err = w.s.Prepare(ctx, "new", broken.top())
			if (err == nil) != c.heals {
				t.Errorf("Prepare on the broken layer: %v", err)
			}
			if errdefs.IsNotFound(err) || errdefs.IsAlreadyExists(err) {
				t.Errorf("the error has a class that means something else: %v", err)
			}
			if _, err := w.s.Mounts(ctx, "old"); (err == nil) != c.heals {
				t.Errorf("Mounts on the broken layer: %v", err)
			}
			mounts, err := w.s.Prepare(ctx, "run", other.top())
			w.must(err)
			indextest.Compare(t, reference(t, other), mountAt(t, mounts), unstable)
			names := w.names()
			if slices.Contains(names, "Active new") != c.heals {
				t.Errorf("after the failure: %q", names)
			}
			for _, name := range []string{"old", broken.top()} {
				if name != "old" && c.heals {
					w.must(w.s.Remove(ctx, "new"))
				}
				w.must(w.s.Remove(ctx, name))
			}
			w.must(w.s.(snapshots.Cleaner).Cleanup(ctx))
		})
	}
}

func (w *world) idOf(key string) string {
	id, err := w.s.(*snapshotter).id(context.Background(), key)
	w.must(err)
	return id
}

// TestGD05_NothingIsDeletedThroughAMount: neither through mounts of layers in use nor through one that somebody put into our directories.
func TestGD05_NothingIsDeletedThroughAMount(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	img := w.lazily(build(t, threeLayers()...), all)
	w.must(w.pull("default", img))
	mounts, err := w.s.Prepare(ctx, "run", img.top())
	w.must(err)
	open, err := os.Open(filepath.Join(lowerDirs(mounts)[0], "top"))
	w.must(err)
	defer open.Close()
	id := w.idOf("run")
	data := t.TempDir()
	w.must(os.WriteFile(filepath.Join(data, "keep"), []byte("x"), 0o600))
	inside := w.s.(*snapshotter).tree(id)
	w.must(unix.Mount(data, inside, "", unix.MS_BIND, ""))
	mounted := true
	defer func() {
		if mounted {
			w.must(unix.Unmount(inside, unix.MNT_DETACH))
		}
	}()

	w.must(w.s.Remove(ctx, "run"))
	if err := w.s.(snapshots.Cleaner).Cleanup(ctx); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("Cleanup with a mount inside: %v", err)
	}
	if _, err := os.Stat(filepath.Join(data, "keep")); err != nil {
		t.Error(err)
	}
	if b := make([]byte, 3); true {
		if _, err := open.ReadAt(b, 0); err != nil || string(b) != "top" {
			t.Errorf("open file of a layer: %q %v", b, err)
		}
	}
	for _, l := range img {
		if _, err := os.ReadDir(l.dir); err != nil {
			t.Errorf("data of a layer: %v", err)
		}
	}
	w.must(unix.Unmount(inside, 0))
	mounted = false
	w.must(w.s.(snapshots.Cleaner).Cleanup(ctx))
	if _, err := os.Stat(filepath.Dir(inside)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the unmount: %v", err)
	}
	if _, err := os.Stat(filepath.Join(data, "keep")); err != nil {
		t.Error(err)
	}
}

// Retain names the layers that are left, and a removed image gives all back.
func TestCleanupGivesAllBack(t *testing.T) {
	w := newWorld(t)
	ctx := in("default")
	img := w.lazily(build(t, threeLayers()...), all)
	w.must(w.pull("default", img))
	_, err := w.sn.Prepare(ctx, "run", img.top())
	w.must(err)
	w.must(w.sn.Remove(ctx, "run"))
	w.must(w.sn.Remove(ctx, img.top()))
	w.gc()
	if live := w.m.Live(); len(live) != 2 {
		t.Errorf("%d layers retained, want 2: %v", len(live), live)
	}
	for _, name := range slices.Backward(img.chainIDs()[:2]) {
		w.must(w.sn.Remove(ctx, name))
	}
	w.gc()
	left, err := os.ReadDir(w.s.(*snapshotter).dir)
	w.must(err)
	if runs, users := w.m.Mounted(); len(w.m.Live()) != 0 || len(left) != 0 || runs != 0 || users != 0 {
		t.Errorf("left: layers %v, directories %v, %d runs, %d users", w.m.Live(), left, runs, users)
	}
}

// What is fetched for a layer while its Prepare runs is not dropped by a Cleanup at that time.
func TestRetainKnowsClaims(t *testing.T) {
	w := newWorld(t)
	img := w.lazily(build(t, tarOf(header{Name: "x"})), all)
	w.m.Before = func(ctx context.Context, method, _ string, _ int) error {
		if method == "Claim" {
			return w.s.(snapshots.Cleaner).Cleanup(ctx)
		}
		return nil
	}
	w.must(w.pull("default", img))
	live := w.m.Live()
	if len(live) != 1 || live[0][snapshottertest.LabelLayer] != img[0].diffID().String() {
		t.Errorf("retained %v", live)
	}
}

func TestSecondDaemonOnOneRootIsRefused(t *testing.T) {
	w := newWorld(t)
	w.must(w.pull("default", w.lazily(build(t, tarOf(header{Name: "x"})), all)))
	if s, err := New(context.Background(), w.root, w.m); err == nil {
		t.Error("two snapshotters on one root", s.Close())
	}
}
