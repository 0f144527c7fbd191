package snapshotter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/fs/index/indextest"
)

// anyDir leaves out the times of what may be a directory: those of implicit ones are times of unpacking.
var anyDir = indextest.Options{SkipMtime: func(path string) bool {
	return path == "." || strings.HasPrefix(filepath.Base(path), "d")
}}

// TestKC08_AnyMixIsTheOverlayOfAll unpacks and mounts random layers, each lazy or plain, and wants what overlayfs makes of all of them unpacked.
func TestKC08_AnyMixIsTheOverlayOfAll(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			var tars [][]byte
			tree := newTree()
			for range 2 + r.IntN(5) {
				tars = append(tars, tree.layer(r))
			}
			img := build(t, tars...)
			mask := r.Uint32()
			w := newWorld(t)
			w.must(w.pull("default", w.lazily(img, func(i int) bool { return mask>>i&1 == 1 })))
			mounts, err := w.sn.Prepare(in("default"), "run", img.top())
			w.must(err)
			indextest.Compare(t, reference(t, img), mountAt(t, mounts), anyDir)
			for i := range img { // of each part of the chain too
				part := img[:i+1]
				mounts, err := w.sn.Prepare(in("default"), fmt.Sprint("part-", i), part.top())
				w.must(err)
				indextest.Compare(t, reference(t, part), mountAt(t, mounts), anyDir)
			}
			w.restart()
			mounts, err = w.sn.Mounts(in("default"), "part-0")
			w.must(err)
			indextest.Compare(t, reference(t, img[:1]), mountAt(t, mounts), anyDir)
		})
	}
}

// containerd copies owner and mode of a directory that the tar does not have from the lower directories: these must be real.
func TestPlainLayerOnRemoteParentsKeepsOwners(t *testing.T) {
	w := newWorld(t)
	img := build(t, threeLayers()...)
	w.must(os.Chown(img[1].dir, 7, 8)) // the root as an image may have it
	img = w.lazily(img, func(i int) bool { return i < 2 })
	w.must(w.pull("default", img))
	mounts, err := w.sn.Prepare(in("default"), "run", img.top())
	w.must(err)
	layer := lowerDirs(mounts)[0]
	var upper string
	for _, o := range mounts[0].Options {
		if dir, ok := strings.CutPrefix(o, "upperdir="); ok {
			upper = dir
		}
	}
	var priv, root, run unix.Stat_t
	w.must(unix.Lstat(filepath.Join(layer, "priv"), &priv))
	w.must(unix.Lstat(layer, &root))
	w.must(unix.Lstat(upper, &run))
	if priv.Mode&0o7777 != 0o700 || priv.Uid != 5 || priv.Gid != 6 {
		t.Errorf("priv was unpacked as %o %d:%d", priv.Mode, priv.Uid, priv.Gid)
	}
	if root.Uid != 7 || root.Gid != 8 || run.Uid != 7 || run.Gid != 8 {
		t.Errorf("root of layer %d:%d, of container %d:%d", root.Uid, root.Gid, run.Uid, run.Gid)
	}
	w.must(w.s.(*snapshotter).releaseGone(t.Context())) // what the commit began to release is released
	if runs, users := w.m.Mounted(); runs != 1 || users != 1 {
		t.Errorf("after the commit %d runs are mounted for %d users, want those of the container", runs, users)
	}
}

// With an id mapping the upper directory belongs to the mapped root, and the labels become options.
func TestIDMappingStaysOverlays(t *testing.T) {
	w := newWorld(t, WithRemapIDs())
	img := build(t, threeLayers()...)
	w.must(os.Chown(img[2].dir, 7, 8))
	img = w.lazily(img, all)
	w.must(w.pull("default", img))
	ids := snapshots.WithLabels(map[string]string{
		snapshots.LabelSnapshotUIDMapping: "0:1000:65536", snapshots.LabelSnapshotGIDMapping: "0:2000:65536"})
	mounts, err := w.sn.Prepare(in("default"), "run", img.top(), ids)
	w.must(err)
	o := strings.Join(mounts[0].Options, " ")
	if !strings.Contains(o, "uidmap=0:1000:65536") || !strings.Contains(o, "gidmap=0:2000:65536") {
		t.Errorf("options %s", o)
	}
	var st unix.Stat_t
	w.must(unix.Lstat(w.s.(*snapshotter).tree("4"), &st))
	if st.Uid != 1000 || st.Gid != 2000 {
		t.Errorf("upper directory belongs to %d:%d", st.Uid, st.Gid)
	}
	mounts, err = w.sn.View(in("default"), "view", img.top(), ids)
	w.must(err)
	if got := fmt.Sprint(mounts[0].Type, mounts[0].Options); got != "bind[uidmap=0:1000:65536 gidmap=0:2000:65536 ro rbind]" {
		t.Errorf("view %s", got)
	}
}

func TestKC05_ManyLayers(t *testing.T) {
	const n = 127
	var tars [][]byte
	for i := range n {
		tars = append(tars, tarOf(header{Name: fmt.Sprintf("d/%d", i), Body: fmt.Sprint(i)}, header{Name: "last", Body: fmt.Sprint(i)}))
	}
	img := build(t, tars...)
	for name, lazy := range map[string]func(int) bool{"lazy": all, "plain": none, "mixed": func(i int) bool { return i%16 != 0 }} {
		t.Run("KC-05 "+name, func(t *testing.T) {
			w := newWorld(t)
			w.must(w.pull("default", w.lazily(img, lazy)))
			mounts, err := w.sn.Prepare(in("default"), "run", img.top())
			w.must(err)
			if name == "lazy" && len(strings.Join(mounts[0].Options, ",")) > 1000 {
				t.Errorf("options of one lower: %v", mounts[0].Options)
			}
			dir := mountAt(t, mounts)
			entries, err := os.ReadDir(filepath.Join(dir, "d"))
			w.must(err)
			last, err := os.ReadFile(filepath.Join(dir, "last"))
			w.must(err)
			if len(entries) != n || string(last) != "126" {
				t.Errorf("%d files, last %s", len(entries), last)
			}
		})
	}
}

func TestUnusableDirectoriesAreRefused(t *testing.T) {
	for _, root := range []string{"relative", filepath.Join(t.TempDir(), "a:b")} {
		if s, err := New(context.Background(), root, nil); !errdefs.IsInvalidArgument(err) {
			t.Errorf("root %q: %v %v", root, s, err)
		}
	}
}
