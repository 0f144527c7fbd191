package snapshotter

import (
	"archive/tar"
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/snapshotters"
	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/index/indextest"
	"github.com/faasnet/faasnet/snapshotter/snapshottertest"
)

// unstable leaves out the times of the root, which is an upper directory, and of priv, which is made when layers of threeLayers are unpacked.
var unstable = indextest.Options{SkipMtime: func(path string) bool { return path == "." || path == "priv" }}

type header = indextest.Header

func tarOf(entries ...header) []byte { return new(indextest.Tar).Add(entries...).Bytes() }

// three layers that touch the same names: priv is explicit in the lowest only, and gone is deleted in the middle.
func threeLayers() [][]byte {
	return [][]byte{
		tarOf(header{Name: "priv/", Type: tar.TypeDir, Mode: 0o700, UID: 5, GID: 6}, header{Name: "priv/a", Body: "a"},
			header{Name: "gone", Body: "x"}, header{Name: "full/", Type: tar.TypeDir}, header{Name: "full/old", Body: "x"}),
		tarOf(header{Name: ".wh.gone"}, header{Name: "priv/b", Body: "b"},
			header{Name: "full/", Type: tar.TypeDir}, header{Name: "full/.wh..wh..opq"}, header{Name: "full/new", Body: "y"}),
		tarOf(header{Name: "priv/c", Body: "c"}, header{Name: "top", Body: "top"}),
	}
}

func TestLazyPullMountsNothing(t *testing.T) {
	w := newWorld(t)
	img := w.lazily(build(t, threeLayers()...), all)
	w.must(w.pull("default", img))
	if n := w.m.Calls("Mount"); n != 0 {
		t.Errorf("%d mounts during the pull", n)
	}
	for i, name := range img.chainIDs() {
		info, err := w.s.Stat(context.Background(), name)
		w.must(err)
		if info.Kind != snapshots.KindCommitted || info.Labels[LabelRemote] == "" || info.Labels[snapshots.LabelSnapshotRef] != name {
			t.Errorf("layer %d: %+v", i, info)
		}
		if u, err := w.s.Usage(context.Background(), name); err != nil || u != (snapshots.Usage{}) {
			t.Errorf("usage of layer %d: %v %v", i, u, err)
		}
	}
	if n := w.names(); len(n) != 3 {
		t.Errorf("snapshots after the pull: %q", n)
	}
	mounts, err := w.sn.Prepare(in("default"), "run", img.top())
	w.must(err)
	if runs, users := w.m.Mounted(); runs != 1 || users != 1 || len(lowerDirs(mounts)) != 1 {
		t.Errorf("%d runs for %d users, mounts %v", runs, users, mounts)
	}
	indextest.Compare(t, reference(t, img), mountAt(t, mounts), unstable)
}

func TestPlacesAreNoDirectories(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	img := w.lazily(build(t, threeLayers()...), all)
	w.must(w.pull("default", img))
	ours := w.s.(*snapshotter)
	if dirs, err := os.ReadDir(ours.dir); err != nil || len(dirs) != 0 {
		t.Errorf("a pull left %v, %v", dirs, err)
	}
	for _, parent := range img.chainIDs()[1:] { // the second time it is there
		for _, key := range []string{"a" + parent, "b" + parent} {
			_, err := w.s.Prepare(ctx, key, w.backend(parent))
			w.must(err)
		}
		if fi, err := os.Lstat(ours.tree(w.idOf(w.backend(parent)))); err != nil || !fi.Mode().IsRegular() {
			t.Errorf("%s can be used as a lower: %v %v", parent, fi, err)
		}
	}
}

func TestKC03_PreparesWithoutParentAreNotClaimed(t *testing.T) {
	w := newWorld(t)
	img := w.lazily(build(t, threeLayers()...), all)
	chain := img.chainIDs()
	for i, l := range img { // what the unpacker does in parallel mode
		labels := l.labels()
		labels[snapshots.LabelSnapshotRef] = chain[i]
		if i > 0 {
			labels[labelParentChain] = chain[i-1]
		}
		_, err := w.sn.Prepare(in("default"), "extract "+chain[i], "", snapshots.WithLabels(labels))
		if want := i == 0; errdefs.IsAlreadyExists(err) != want {
			t.Errorf("layer %d: %v", i, err)
		}
	}
	if n := w.names(); len(slices.DeleteFunc(n, func(s string) bool { return strings.HasPrefix(s, "Active") })) != 1 {
		t.Errorf("snapshots: %q", n)
	}
}

func TestSameLayerOnAnotherParentGetsAnotherName(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	img := w.lazily(build(t, threeLayers()...), all)
	target := img.top()
	var parents []string
	for _, name := range []string{"default/1/p", "k8s.io/1/p"} {
		_, err := w.s.Prepare(ctx, "active-"+name, "")
		w.must(err)
		w.must(w.s.Commit(ctx, name, "active-"+name))
		parents = append(parents, name)
	}
	labels := img[2].labels()
	labels[snapshots.LabelSnapshotRef] = target
	for range 2 { // the second time all is there already
		for _, parent := range append(parents, "") {
			_, err := w.s.Prepare(ctx, "extract", parent, snapshots.WithLabels(labels))
			if !errdefs.IsAlreadyExists(err) {
				t.Fatalf("on %q: %v", parent, err)
			}
		}
	}
	found := map[string]string{}
	w.must(w.s.Walk(ctx, func(_ context.Context, info snapshots.Info) error {
		found[info.Parent] = info.Name
		return nil
	}, `labels."containerd.io/snapshot.ref"==`+target))
	if len(found) != 3 || found[parents[0]] != target || found[parents[1]] == target || found[""] == target {
		t.Errorf("layers by parent: %v", found)
	}
	if n := len(w.names()); n != 5 {
		t.Errorf("snapshots: %q", w.names())
	}
}

func TestOtherContentIsNotReused(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	img := w.lazily(build(t, threeLayers()...), all)
	labels := img[0].labels()
	labels[snapshots.LabelSnapshotRef] = "chain"
	labels[snapshotters.TargetRefLabel] = "reg/a:1"
	_, err := w.s.Prepare(ctx, "a", "", snapshots.WithLabels(labels))
	if !errdefs.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	labels[snapshotters.TargetRefLabel] = "reg/b:1" // the same blob elsewhere
	if _, err = w.s.Prepare(ctx, "b", "", snapshots.WithLabels(labels)); !errdefs.IsAlreadyExists(err) {
		t.Errorf("same blob of another repository: %v", err)
	}
	other := img[1].labels() // a blob whose image claims the same chain
	other[snapshots.LabelSnapshotRef] = "chain"
	if mounts, err := w.s.Prepare(ctx, "c", "", snapshots.WithLabels(other)); err != nil || len(mounts) != 1 {
		t.Errorf("other blob: %v %v", mounts, err)
	}
}

func TestMarkCannotBeSetOrLost(t *testing.T) {
	w := newWorld(t)
	img := w.lazily(build(t, threeLayers()...), func(i int) bool { return i == 0 })
	w.must(w.pull("default", img))
	ctx := context.Background()
	remote, err := w.s.Stat(ctx, img.chainIDs()[0])
	w.must(err)

	// An annotation of a plain layer arrives as label of Prepare and Commit.
	mark := snapshots.WithLabels(map[string]string{LabelRemote: "x", snapshottertest.LabelLayer: "y"})
	_, err = w.s.Prepare(ctx, "active", "", mark)
	w.must(err)
	w.must(w.s.Commit(ctx, "plain", "active", mark))
	info, err := w.s.Update(ctx, snapshots.Info{Name: "plain", Labels: map[string]string{LabelRemote: "x", "k": "v"}}, "labels."+LabelRemote, "labels.k")
	w.must(err)
	if isRemote(info) || info.Labels["k"] != "v" {
		t.Errorf("plain layer: %v", info.Labels)
	}
	for _, paths := range [][]string{nil, {"labels"}, {"labels." + LabelRemote, "labels." + snapshottertest.LabelLayer}} {
		info, err := w.s.Update(ctx, snapshots.Info{Name: remote.Name, Labels: map[string]string{"mine": "1"}}, paths...)
		w.must(err)
		if !isRemote(info) || info.Labels[snapshottertest.LabelLayer] != remote.Labels[snapshottertest.LabelLayer] {
			t.Errorf("Update(%q) of a remote layer left %v", paths, info.Labels)
		}
	}
	if _, err := w.s.Update(ctx, snapshots.Info{Name: remote.Name}, "parent"); !errdefs.IsInvalidArgument(err) {
		t.Errorf("update of the parent: %v", err)
	}
}
