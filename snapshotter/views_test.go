package snapshotter

import (
	"archive/tar"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/mount"
	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/fs/index/indextest"
)

// TestKC06_ViewAndPrepare mounts by hand what View and Prepare return over 0 to 3 layers, lazy or plain.
func TestKC06_ViewAndPrepare(t *testing.T) {
	img := build(t, threeLayers()...)
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			w := newWorld(t)
			w.must(w.pull("default", w.lazily(img, k.lazy)))
			for n := range len(img) + 1 {
				parent, want := "", t.TempDir()
				w.must(os.Chmod(want, 0o755))
				if n > 0 {
					parent, want = img[:n].top(), reference(t, img[:n])
				}
				t.Run(fmt.Sprintf("KC-06 view of %d", n), func(t *testing.T) {
					mounts, err := w.sn.View(in("default"), fmt.Sprint("view-", n), parent)
					w.must(err)
					dir := mountAt(t, mounts)
					indextest.Compare(t, want, dir, unstable)
					if err := os.WriteFile(filepath.Join(dir, "new"), nil, 0o600); !errors.Is(err, unix.EROFS) {
						t.Errorf("write to a view: %v", err)
					}
					if m := mounts[0]; m.Type == "bind" && (!slices.Contains(m.Options, "ro") || !slices.Contains(m.Options, "rbind")) {
						t.Errorf("bind mount %v", m)
					}
					again, err := w.sn.Mounts(in("default"), fmt.Sprint("view-", n))
					w.must(err)
					if fmt.Sprint(again) != fmt.Sprint(mounts) {
						t.Errorf("View %v\nMounts %v", mounts, again)
					}
				})
				t.Run(fmt.Sprintf("KC-06 prepare on %d", n), func(t *testing.T) {
					mounts, err := w.sn.Prepare(in("default"), fmt.Sprint("run-", n), parent)
					w.must(err)
					dir := mountAt(t, mounts)
					indextest.Compare(t, want, dir, unstable)
					w.must(os.WriteFile(filepath.Join(dir, "new"), nil, 0o600))
					again, err := w.sn.Mounts(in("default"), fmt.Sprint("run-", n))
					w.must(err)
					if fmt.Sprint(again) != fmt.Sprint(mounts) {
						t.Errorf("Prepare %v\nMounts %v", mounts, again)
					}
				})
			}
		})
	}
}

// A container on lazy layers is committed as an image layer, which then is the parent of others.
func TestCommitOnRemoteLayers(t *testing.T) {
	w := newWorld(t)
	img := w.lazily(build(t, threeLayers()...), all)
	w.must(w.pull("default", img))
	ctx := in("default")
	mounts, err := w.sn.Prepare(ctx, "run", img.top())
	w.must(err)
	dir := t.TempDir()
	w.must(mount.All(mounts, dir))
	w.must(os.WriteFile(filepath.Join(dir, "new"), []byte("data"), 0o600))
	w.must(os.Remove(filepath.Join(dir, "top")))
	w.must(mount.UnmountAll(dir, 0))
	w.must(w.sn.Commit(ctx, "committed", "run"))
	u, err := w.sn.Usage(ctx, "committed")
	w.must(err)
	if u.Size == 0 || u.Size > 1<<20 {
		t.Errorf("usage of the commit: %+v", u)
	}
	tops := append(slices.Clone(img), imageLayer{dir: w.s.(*snapshotter).tree("4")})
	mounts, err = w.sn.Prepare(ctx, "again", "committed")
	w.must(err)
	got := mountAt(t, mounts)
	indextest.Compare(t, reference(t, tops), got, unstable)
	if _, err := os.Lstat(filepath.Join(got, "top")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("deleted file: %v", err)
	}
}

// An index layer has an empty tar: it adds nothing, over lazy or over plain layers.
func TestEmptyLayerOnTop(t *testing.T) {
	img := build(t, append(threeLayers(), tarOf())...)
	for _, lazy := range []func(int) bool{all, func(i int) bool { return i == 3 }, func(i int) bool { return i < 3 }} {
		w := newWorld(t)
		w.must(w.pull("default", w.lazily(img, lazy)))
		mounts, err := w.sn.Prepare(in("default"), "run", img.top())
		w.must(err)
		indextest.Compare(t, reference(t, img[:3]), mountAt(t, mounts), unstable)
	}
}

// A run whose only layer deletes something of a plain layer below.
func TestLazyLayerDeletesFromPlainOne(t *testing.T) {
	img := build(t,
		tarOf(header{Name: "d/", Type: tar.TypeDir, Mode: 0o711, UID: 3}, header{Name: "d/a", Body: "a"}, header{Name: "d/b", Body: "b"}, header{Name: "c", Body: "c"}),
		tarOf(header{Name: "d/.wh.a"}, header{Name: ".wh.c"}))
	w := newWorld(t)
	w.must(w.pull("default", w.lazily(img, func(i int) bool { return i == 1 })))
	mounts, err := w.sn.View(in("default"), "view", img.top())
	w.must(err)
	dir := mountAt(t, mounts)
	indextest.Compare(t, reference(t, img), dir, anyDir)
	for _, name := range []string{"d/a", "c"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whoever a container runs as may look into its root directory.
func TestFU03_UpperIsOpen(t *testing.T) {
	img := build(t, threeLayers()...)
	for _, k := range kinds {
		t.Run("FU-03 "+k.name, func(t *testing.T) {
			w := newWorld(t)
			w.must(w.pull("default", w.lazily(img, k.lazy)))
			mounts, err := w.sn.Prepare(in("default"), "run", img.top())
			w.must(err)
			i := slices.IndexFunc(mounts[0].Options, func(o string) bool { return strings.HasPrefix(o, "upperdir=") })
			if i < 0 {
				t.Fatalf("no upper directory in %v", mounts)
			}
			fi, err := os.Stat(strings.TrimPrefix(mounts[0].Options[i], "upperdir="))
			w.must(err)
			if mode := fi.Mode().Perm(); mode != 0o755 {
				t.Errorf("upper directory of mode %o", mode)
			}
		})
	}
}
