package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/core/snapshots/storage"
	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/snapshotter/snapshottertest"
)

// noOrphans compares overlay's directories with the stored snapshots, both ways.
func noOrphans(t testing.TB, s *snapshotter) {
	t.Helper()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	var ids map[string]string
	if err := s.store.WithTransaction(context.Background(), false, func(ctx context.Context) (err error) {
		ids, err = storage.IDMap(ctx)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, ok := ids[e.Name()]; !ok {
			t.Errorf("directory %s belongs to no snapshot", e.Name())
		}
		delete(ids, e.Name())
	}
	for id, key := range ids {
		if info, err := s.Stat(context.Background(), key); err == nil && isRemote(info) {
			continue // it gets one when something stands on it
		}
		t.Errorf("snapshot %s has no directory %s", key, id)
	}
}

func TestCD02_ManyMountsOfOneKey(t *testing.T) {
	for _, fail := range []bool{false, true} {
		t.Run(fmt.Sprintf("CD-02 first fails %v", fail), func(t *testing.T) {
			w := newWorld(t)
			img := w.lazily(build(t, threeLayers()...), all)
			w.must(w.pull("default", img))
			_, err := w.sn.Prepare(in("default"), "run", img.top())
			w.must(err)
			w.restart() // nothing is mounted now
			const n = 50
			var waiting sync.WaitGroup
			waiting.Add(n)
			var first atomic.Bool
			w.m.Before = func(_ context.Context, method, _ string, _ int) error {
				if method != "Mount" || first.Swap(true) {
					return nil
				}
				waiting.Wait() // the mount is slow
				if fail {
					return errdefs.ErrUnavailable
				}
				return nil
			}
			var failed atomic.Int64
			var wg sync.WaitGroup
			results := make([]string, n)
			for i := range n {
				wg.Go(func() {
					waiting.Done()
					mounts, err := w.sn.Mounts(in("default"), "run")
					if err != nil {
						failed.Add(1)
						return
					}
					results[i] = fmt.Sprint(mounts)
				})
			}
			wg.Wait()
			if got := failed.Load(); (got == 1) != fail || got > 1 {
				t.Errorf("%d calls failed", got)
			}
			seen := map[string]bool{}
			for _, r := range results {
				seen[r] = true
			}
			delete(seen, "")
			if len(seen) != 1 {
				t.Errorf("different mounts: %v", seen)
			}
			if runs, users := w.m.Mounted(); runs != 1 || users != 1 {
				t.Errorf("%d runs for %d users", runs, users)
			}
		})
	}
}

// A caller that gives up does not take the mount away from those that wait for it.
func TestCancelledCallerDoesNotStopOthers(t *testing.T) {
	w := newWorld(t)
	img := w.lazily(build(t, threeLayers()...), all)
	w.must(w.pull("default", img))
	_, err := w.sn.Prepare(in("default"), "run", img.top())
	w.must(err)
	w.restart()
	inside := make(chan struct{}, 2)
	var first atomic.Bool
	w.m.Before = func(ctx context.Context, method, _ string, _ int) error {
		if method != "Mount" || first.Swap(true) {
			return nil
		}
		inside <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	ctx, cancel := context.WithCancel(in("default"))
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := w.sn.Mounts(ctx, "run"); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled call: %v", err)
		}
	})
	<-inside
	wg.Go(func() {
		if _, err := w.sn.Mounts(in("default"), "run"); err != nil {
			t.Errorf("other call: %v", err)
		}
	})
	cancel()
	wg.Wait()
}

// TestCD04_StuckMounter hangs each method of the Mounter, ignoring its context, and uses the snapshotter through the proxy meanwhile.
func TestCD04_StuckMounter(t *testing.T) {
	for _, stuck := range []string{"Claim", "Mount", "Release", "Retain"} {
		t.Run("CD-04 "+stuck, func(t *testing.T) {
			w := newWorld(t)
			img := w.lazily(build(t, threeLayers()...), all)
			w.must(w.pull("default", img))
			c := &w.s.(*snapshotter).config
			p, stop, err := serve(w.s, filepath.Join(t.TempDir(), "sock"))
			w.must(err)
			defer func() { w.must(stop()) }()
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // only a hang fails
			defer cancel()
			_, err = p.Prepare(ctx, "run", img.top())
			w.must(err)
			const short = 50 * time.Millisecond // for what will hang
			switch stuck {
			case "Claim":
				c.claimWait = short
			case "Mount":
				c.prepareWait, c.mountsWait, c.releaseWait = short, short, short
			default:
				c.releaseWait = short
			}
			hang := make(chan struct{})
			w.m.Before = func(_ context.Context, method, _ string, _ int) error {
				if method == stuck {
					<-hang
				}
				return nil
			}

			_, err = p.Prepare(ctx, "second", img.top())
			if (stuck == "Mount") != errdefs.IsUnavailable(err) {
				t.Errorf("Prepare: %v", err)
			}
			_, err = p.Mounts(ctx, "run")
			if (stuck == "Mount") != errdefs.IsUnavailable(err) {
				t.Errorf("Mounts: %v", err)
			}
			labels := img[0].labels()
			labels[snapshots.LabelSnapshotRef] = "new"
			_, err = p.Prepare(ctx, "layer", "", snapshots.WithLabels(labels))
			if (stuck == "Claim") != (err == nil) || (err != nil && !errdefs.IsAlreadyExists(err)) {
				t.Errorf("Prepare of a layer: %v", err)
			}
			if _, err := p.Stat(ctx, "run"); err != nil {
				t.Errorf("Stat: %v", err)
			}
			if _, err := p.Usage(ctx, "run"); err != nil {
				t.Errorf("Usage: %v", err)
			}
			if err := p.Walk(ctx, func(context.Context, snapshots.Info) error { return nil }); err != nil {
				t.Errorf("Walk: %v", err)
			}
			if err := p.Remove(ctx, "run"); err != nil {
				t.Errorf("Remove: %v", err)
			}
			err = p.(snapshots.Cleaner).Cleanup(ctx)
			if (stuck == "Claim") != (err == nil) { // nothing can be released while a Mount for the same user is stuck
				t.Errorf("Cleanup: %v", err)
			}
			close(hang)
			want := 0
			if stuck != "Mount" {
				want = 1 // second
			}
			for { // what was given up is done by a later Cleanup
				err := p.(snapshots.Cleaner).Cleanup(ctx)
				if _, users := w.m.Mounted(); err == nil && users == want {
					return
				}
				if ctx.Err() != nil {
					t.Fatalf("%v, %v", ctx.Err(), err)
				}
			}
		})
	}
}

// TestWaits proves the defaults in virtual time, with a Mounter that waits as long as it may.
func TestWaits(t *testing.T) {
	for name, c := range map[string]struct {
		call func(s snapshots.Snapshotter, top string) error
		want time.Duration
	}{
		"container": {func(s snapshots.Snapshotter, top string) error {
			_, err := s.Prepare(context.Background(), "k", top)
			return err
		}, 1500 * time.Millisecond},
		"view": {func(s snapshots.Snapshotter, top string) error {
			_, err := s.View(context.Background(), "k", top)
			return err
		}, 1500 * time.Millisecond},
		"plain layer": {func(s snapshots.Snapshotter, top string) error {
			_, err := s.Prepare(context.Background(), "k", top, snapshots.WithLabels(map[string]string{snapshots.LabelSnapshotRef: "t"}))
			return err
		}, 5 * time.Second},
		"mounts": {func(s snapshots.Snapshotter, _ string) error {
			_, err := s.Mounts(context.Background(), "run")
			return err
		}, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			img := build(t, threeLayers()...)
			root := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				m := &snapshottertest.Mounter{Dir: filepath.Join(root, "mnt"), Layers: map[string]string{}}
				w := &world{t: t, root: root, m: m}
				w.start()
				defer w.stop()
				img := w.lazily(img, all)
				w.must(pull(in("default"), w.s, img))
				_, err := w.s.Prepare(context.Background(), "run", img.top())
				w.must(err)
				defer func() { w.must(m.Close()) }()
				m.Before = func(ctx context.Context, method, _ string, _ int) error {
					if method == "Mount" {
						<-ctx.Done()
						return ctx.Err()
					}
					return nil
				}
				start := time.Now()
				err = c.call(w.s, img.top())
				if d := time.Since(start); !errdefs.IsUnavailable(err) || d != c.want {
					t.Errorf("after %v, want %v: %v", d, c.want, err)
				}
				if n := w.names(); len(n) != 4 {
					t.Errorf("snapshots %q", n)
				}
				synctest.Wait() // for the call that was given up
				m.Before = nil
				if err := c.call(w.s, img.top()); err != nil {
					t.Errorf("once it can be mounted: %v", err)
				}
			})
		})
	}
}

// A mount that comes too late for its Prepare, which has been undone, does not stay.
func TestLateMountIsReleased(t *testing.T) {
	img := build(t, threeLayers()...)
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := &snapshottertest.Mounter{Dir: filepath.Join(root, "mnt"), Layers: map[string]string{}}
		w := &world{t: t, root: root, m: m}
		w.start()
		defer w.stop()
		img := w.lazily(img, all)
		w.must(pull(in("default"), w.s, img))
		late := make(chan struct{})
		m.Before = func(_ context.Context, method, _ string, _ int) error {
			if method == "Mount" {
				<-late
			}
			return nil
		}
		if _, err := w.s.Prepare(context.Background(), "k", img.top()); !errdefs.IsUnavailable(err) {
			t.Errorf("Prepare: %v", err)
		}
		close(late)
		synctest.Wait()
		if runs, users := m.Mounted(); m.Calls("Mount") != 1 || runs != 0 || users != 0 {
			t.Errorf("%d mounts, left %d runs for %d users", m.Calls("Mount"), runs, users)
		}
		w.must(m.Close())
	})
}

// Pulls of one image in several namespaces at once all succeed and share its layers.
func TestConcurrentPulls(t *testing.T) {
	w := newWorld(t)
	img := w.lazily(build(t, threeLayers()...), all)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			ns := fmt.Sprint("ns", i)
			if err := w.pull(ns, img); err != nil {
				t.Error(err)
				return
			}
			if _, err := w.sn.Prepare(in(ns), "run", img.top()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if runs, users := w.m.Mounted(); runs != 1 || users != 8 {
		t.Errorf("%d runs for %d users", runs, users)
	}
	if n := w.names(); len(n) != 3+8 {
		t.Errorf("snapshots %q", n)
	}
}
