package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
)

// TestGD06_CleanupRacesWithAll prepares, commits and removes in four goroutines, lazily or not, with Cleanup all the time.
func TestGD06_CleanupRacesWithAll(t *testing.T) {
	w := newWorld(t)
	img := w.lazily(build(t, threeLayers()...), all)
	w.must(w.pull("default", img))
	ctx := context.Background()
	clean := w.s.(snapshots.Cleaner).Cleanup
	var workers, cleaner sync.WaitGroup
	done := make(chan struct{})
	cleaner.Go(func() {
		for {
			if err := clean(ctx); err != nil {
				t.Error(err)
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for g := range 4 {
		workers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 6))
			for i := range 40 {
				if err := round(ctx, w.s, img, r, fmt.Sprintf("%d-%d", g, i)); err != nil {
					t.Errorf("%d-%d: %v", g, i, err)
					return
				}
			}
		})
	}
	workers.Wait()
	close(done)
	cleaner.Wait()
	w.must(w.s.(*snapshotter).calls.close(time.Minute))
	for _, n := range w.names() {
		if !strings.HasPrefix(n, "Committed sha256:") {
			t.Errorf("left %s", n)
		}
	}
	w.must(w.s.(*snapshotter).cleanDirs(ctx))
	noOrphans(t, w.s.(*snapshotter))
	if runs, users := w.m.Mounted(); runs != 0 || users != 0 || len(w.s.(*snapshotter).users.ids()) != 0 {
		t.Errorf("left %d runs for %d users, and %v", runs, users, w.s.(*snapshotter).users.ids())
	}
}

// round is one life of a snapshot, given up at a random point.
func round(ctx context.Context, s snapshots.Snapshotter, img image, r *rand.Rand, key string) error {
	parent := img.top()
	if r.IntN(2) == 0 {
		labels := img[r.IntN(3)].labels()
		labels[snapshots.LabelSnapshotRef] = "target-" + key
		if _, err := s.Prepare(ctx, key, parent, snapshots.WithLabels(labels)); !errdefs.IsAlreadyExists(err) {
			return fmt.Errorf("layer: %w", err)
		}
		parent = "target-" + key
		defer func() { _ = s.Remove(ctx, "target-"+key) }()
	}
	mounts, err := s.Prepare(ctx, key, parent)
	if err != nil {
		return err
	}
	if err := mount.WithTempMount(ctx, mounts, func(dir string) error {
		return os.WriteFile(filepath.Join(dir, key), []byte(key), 0o600)
	}); err != nil {
		return err
	}
	if r.IntN(2) == 0 {
		return s.Remove(ctx, key)
	}
	if err := s.Commit(ctx, "c-"+key, key); err != nil {
		return err
	}
	view, err := s.View(ctx, key, "c-"+key)
	if err != nil {
		return err
	}
	if err := mount.WithTempMount(ctx, view, func(dir string) error {
		_, err := os.Stat(filepath.Join(dir, key))
		return err
	}); err != nil {
		return err
	}
	return errors.Join(s.Remove(ctx, key), s.Remove(ctx, "c-"+key))
}
