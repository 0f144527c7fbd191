package snapshotter

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/containerd/containerd/v2/core/snapshots"

	"github.com/faasnet/faasnet/snapshotter/snapshottertest"
)

// A crash between overlay's rename and its commit leaves a directory whose id is given again.
func TestCrashInPrepareLeavesTheIDUsable(t *testing.T) {
	ctx, root := context.Background(), t.TempDir()
	open := func() *snapshotter {
		s, err := New(ctx, root, &snapshottertest.Mounter{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		return s.(*snapshotter)
	}
	s := open()
	if _, err := s.Prepare(ctx, "a", ""); err != nil {
		t.Fatal(err)
	}
	id, err := s.id(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(id)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "snapshots")
	for i := range 3 { // whichever id comes next
		left := filepath.Join(dir, strconv.Itoa(n+1+i), "fs", "d")
		if err := os.MkdirAll(left, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s = open()
	defer s.Close()
	if _, err := s.Prepare(ctx, "b", ""); err != nil {
		t.Error(err)
	}
	if _, err := s.Mounts(ctx, "a"); err != nil {
		t.Errorf("a snapshot that was there before: %v", err)
	}
	if err := snapshots.Snapshotter(s).(snapshots.Cleaner).Cleanup(ctx); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("after Cleanup there are %v, %v", entries, err)
	}
}
