package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/core/snapshots/storage"
	"github.com/containerd/containerd/v2/plugins/snapshots/overlay"
	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/snapshotter/snapshottertest"
)

var errInjected = errors.New("injected")

// faultyStore fails the transaction that countdown reaches 0 with: before it begins, or after all its work is done.
type faultyStore struct {
	overlay.MetaStore
	countdown atomic.Int64
	late      bool
}

func (f *faultyStore) WithTransaction(ctx context.Context, writable bool, fn storage.TransactionCallback) error {
	if f.countdown.Add(-1) != 0 {
		return f.MetaStore.WithTransaction(ctx, writable, fn)
	}
	if !f.late {
		return errInjected
	}
	return f.MetaStore.WithTransaction(ctx, writable, func(ctx context.Context) error { return errors.Join(fn(ctx), errInjected) })
}

// TestCD03_FailureAtEachTransaction fails each transaction of each kind of Prepare in turn, while others walk and write: every call returns,
// nothing is left, and a writer gets its turn.
func TestCD03_FailureAtEachTransaction(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("CD-03 after the work %v", late), func(t *testing.T) {
			root := t.TempDir()
			ms, err := storage.NewMetaStore(filepath.Join(root, "metadata.db"))
			if err != nil {
				t.Fatal(err)
			}
			store := &faultyStore{MetaStore: ms, late: late}
			m := &snapshottertest.Mounter{Dir: filepath.Join(root, "mnt"), Layers: map[string]string{"l": build(t, tarOf(header{Name: "x"}))[0].dir}}
			s, err := newSnapshotter(root, store, m, patient)
			if err != nil {
				t.Fatal(err)
			}
			ctx := context.Background()
			lazy := func(target string) snapshots.Opt {
				return snapshots.WithLabels(map[string]string{snapshots.LabelSnapshotRef: target, snapshottertest.LabelLayer: "l", "pad": strings.Repeat("x", 3000)})
			}
			if _, err := s.Prepare(ctx, "k", "", lazy("base")); !errdefs.IsAlreadyExists(err) {
				t.Fatal(err)
			}
			stop := busy(t, s)
			steps := map[string]int64{}
			for name, prepare := range map[string]func(key string) error{
				"container": func(key string) error { _, err := s.Prepare(ctx, key, "base"); return err },
				"view":      func(key string) error { _, err := s.View(ctx, key, "base"); return err },
				"layer":     func(key string) error { _, err := s.Prepare(ctx, key, "base", lazy("target-"+key)); return err },
			} {
				for n := int64(1); ; n++ {
					key := fmt.Sprintf("%s-%d", name, n)
					store.countdown.Store(n)
					err := prepare(key)
					done := store.countdown.Swap(0) > 0 // not reached: no transaction is left to fail
					_, statErr := s.Stat(ctx, key)
					if err == nil != (statErr == nil) {
						t.Errorf("%s: %v, and then Stat: %v", key, err, statErr)
					}
					if !errors.Is(err, errInjected) && err != nil && !errdefs.IsAlreadyExists(err) {
						t.Errorf("%s: %v", key, err)
					}
					writeWithin(t, s, time.Second)
					if err == nil {
						if err := s.Remove(ctx, key); err != nil {
							t.Error(err)
						}
					}
					if done {
						steps[name] = n - 1
						break
					}
				}
			}
			stop()
			if steps["container"] < 2 || steps["view"] < 2 || steps["layer"] < 2 {
				t.Errorf("too few transactions were failed: %v", steps)
			}
			if err := s.Cleanup(ctx); err != nil {
				t.Error(err)
			}
			noOrphans(t, s)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if runs, users := m.Mounted(); runs != 0 || users != 0 {
				t.Errorf("left %d runs for %d users", runs, users)
			}
		})
	}
}

// busy walks, looks and writes until stop. It goes past the store's faults, and grows the file beyond its first mapping.
func busy(t *testing.T, s *snapshotter) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	loop := func(f func(i int) error) {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if err := f(i); err != nil && !errors.Is(err, errInjected) && !errdefs.IsNotFound(err) {
					t.Error(err)
					return
				}
			}
		})
	}
	direct := &snapshotter{store: s.store.(*faultyStore).MetaStore}
	loop(func(int) error {
		return direct.store.WithTransaction(ctx, false, func(ctx context.Context) error {
			return storage.WalkInfo(ctx, func(ctx context.Context, info snapshots.Info) error {
				_, _, _, err := storage.GetInfo(ctx, info.Name)
				return err
			})
		})
	})
	loop(func(i int) error {
		_, err := direct.Update(ctx, snapshots.Info{Name: "base", Labels: map[string]string{fmt.Sprint("k", i%50): strings.Repeat("v", 4000)}}, fmt.Sprint("labels.k", i%50))
		return err
	})
	return func() { cancel(); wg.Wait() }
}

// writeWithin fails the test when a transaction is still open after d.
func writeWithin(t *testing.T, s *snapshotter, d time.Duration) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := s.Update(context.Background(), snapshots.Info{Name: "base", Labels: map[string]string{"w": "1"}}, "labels.w")
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * d): // only a hang fails
		t.Fatal("a transaction is still open")
	}
}

// TestFailedMountIsUndone fails the Mounter at each run below a container, a view and a plain layer.
func TestFailedMountIsUndone(t *testing.T) {
	img := build(t, threeLayers()...)
	for _, class := range []error{errdefs.ErrUnavailable, errdefs.ErrNotFound, errdefs.ErrAlreadyExists, errdefs.ErrDataLoss, context.DeadlineExceeded} {
		for run := 1; run <= 2; run++ {
			t.Run(fmt.Sprintf("%v at run %d", class, run), func(t *testing.T) {
				w := newWorld(t)
				w.must(w.pull("default", w.lazily(img, func(i int) bool { return i != 1 })))
				before := w.m.Calls("Mount")
				calls := func() int { return w.m.Calls("Mount") - before }
				w.m.Before = func(_ context.Context, method, _ string, _ int) error {
					if method == "Mount" && calls() == run {
						return fmt.Errorf("mount: %w", class)
					}
					return nil
				}
				ctx := in("default")
				for name, prepare := range map[string]func() error{
					"container": func() error { _, err := w.sn.Prepare(ctx, "k", img.top()); return err },
					"view":      func() error { _, err := w.sn.View(ctx, "k", img.top()); return err },
					"layer": func() error {
						_, err := w.sn.Prepare(ctx, "k", img.top(), snapshots.WithLabels(map[string]string{snapshots.LabelSnapshotRef: "plain"}))
						return err
					},
				} {
					before = w.m.Calls("Mount")
					err := prepare()
					if err == nil || errdefs.IsNotFound(err) || errdefs.IsAlreadyExists(err) || errdefs.IsUnknown(err) {
						t.Errorf("%s: %v", name, err)
					}
					if errdefs.IsDataLoss(class) != errdefs.IsDataLoss(err) || !strings.Contains(err.Error(), class.Error()) {
						t.Errorf("%s: %v does not tell of %v", name, err, class)
					}
					if n := w.names(); len(n) != 3 {
						t.Errorf("%s: left %q", name, n)
					}
					noOrphans(t, w.s.(*snapshotter))
					w.settle()
					if runs, users := w.m.Mounted(); runs != 0 || users != 0 {
						t.Errorf("%s: left %d runs for %d users", name, runs, users)
					}
				}
				w.m.Before = nil
				_, err := w.sn.Prepare(ctx, "k", img.top())
				w.must(err)
			})
		}
	}
}

// A failure of Mounts must not take away what a running container has.
func TestFailedMountsLeaveARunningContainerAlone(t *testing.T) {
	w := newWorld(t)
	img := w.lazily(build(t, threeLayers()...), all)
	w.must(w.pull("default", img))
	_, err := w.sn.Prepare(in("default"), "run", img.top())
	w.must(err)
	w.m.Before = func(_ context.Context, method, _ string, _ int) error {
		if method == "Mount" {
			return errdefs.ErrUnavailable
		}
		return nil
	}
	if _, err := w.sn.Mounts(in("default"), "run"); !errdefs.IsUnavailable(err) {
		t.Errorf("Mounts: %v", err)
	}
	if runs, users := w.m.Mounted(); runs != 1 || users != 1 {
		t.Errorf("%d runs for %d users", runs, users)
	}
}

// A directory that is no mount would be an empty container without an error.
func TestLowerThatIsNoMountIsRefused(t *testing.T) {
	for name, dir := range map[string]string{"plain directory": t.TempDir(), "missing": "/nowhere", "colon": "/proc:1", "file": "/proc/version"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			img := w.lazily(build(t, threeLayers()...), all)
			w.must(w.pull("default", img))
			s := w.s.(*snapshotter)
			s.mounter = liar{s.mounter, dir}
			if mounts, err := s.Prepare(context.Background(), "run", img.top()); err == nil {
				t.Errorf("mounts %v", mounts)
			}
			if n := w.names(); len(n) != 3 {
				t.Errorf("left %q", n)
			}
		})
	}
}

type liar struct {
	Mounter
	dir string
}

func (l liar) Mount(context.Context, string, []map[string]string, []string) (string, error) {
	return l.dir, nil
}
