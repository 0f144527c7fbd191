package snapshotter

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/faasnet/faasnet/fs/index/indextest"
	"github.com/faasnet/faasnet/snapshotter/snapshottertest"

	"github.com/containerd/log"
)

// kinds say which layers of an image are lazy.
var kinds = []struct {
	name string
	lazy func(i int) bool
}{
	{"lazy", all},
	{"none", none},
	{"KC-08 mixed plain first", func(i int) bool { return i%2 == 1 }},
	{"KC-08 mixed lazy first", func(i int) bool { return i%2 == 0 }},
}

// TestTwoNamespaces pulls one image in two namespaces, in each lazily or not, and runs it in both whatever is removed and collected.
func TestTwoNamespaces(t *testing.T) {
	img := build(t, threeLayers()...)
	want := reference(t, img)
	for _, a := range kinds {
		for _, b := range kinds {
			for _, second := range []string{"k8s.io", "zz"} { // sorted before and after "sha256:..."
				t.Run(a.name+" then "+b.name+" in "+second, func(t *testing.T) {
					w := newWorld(t)
					w.must(w.pull("default", w.lazily(img, a.lazy)))
					w.must(w.pull(second, w.lazily(img, b.lazy)))
					for _, n := range w.names() {
						if !strings.HasPrefix(n, "Committed") {
							t.Errorf("left over: %s", n)
						}
					}
					w.gc()
					for _, ns := range []string{"default", second} {
						mounts, err := w.sn.Prepare(in(ns), "run", img.top())
						w.must(err)
						indextest.Compare(t, want, mountAt(t, mounts), unstable)
					}
					w.must(w.sn.Remove(in("default"), "run"))
					for _, name := range slices.Backward(img.chainIDs()) {
						w.must(w.sn.Remove(in("default"), name))
					}
					w.gc()
					mounts, err := w.sn.View(in(second), "view", img.top())
					w.must(err)
					indextest.Compare(t, reference(t, img), mountAt(t, mounts), unstable)
				})
			}
		}
	}
}

// A layer that another namespace has lazily is not mounted, fetched or kept twice.
func TestSecondNamespaceSharesLayers(t *testing.T) {
	w := newWorld(t)
	img := w.lazily(build(t, threeLayers()...), all)
	for _, ns := range []string{"a", "b", "c"} {
		w.must(w.pull(ns, img))
		_, err := w.sn.Prepare(in(ns), "run", img.top())
		w.must(err)
	}
	if runs, users := w.m.Mounted(); runs != 1 || users != 3 {
		t.Errorf("%d runs mounted for %d users", runs, users)
	}
	if n := w.names(); len(n) != 3+3 {
		t.Errorf("snapshots: %q", n)
	}
}

// A base image pulled after an image made from it: all its layers are there.
func TestBaseAfterDerived(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			w := newWorld(t)
			derived := w.lazily(build(t, threeLayers()...), k.lazy)
			base := derived[:2]
			w.must(w.pull("default", derived))
			before := w.m.Calls("Claim")
			w.must(w.pull("default", base))
			if n := w.m.Calls("Claim"); n != before {
				t.Errorf("%d claims for layers that are there", n-before)
			}
			mounts, err := w.sn.Prepare(in("default"), "run", base.top())
			w.must(err)
			indextest.Compare(t, reference(t, base), mountAt(t, mounts), unstable)
		})
	}
}

func TestKC02_EachPlainLayerSaysWhyOnce(t *testing.T) {
	reg := prometheus.NewRegistry()
	w := newWorld(t, WithRegisterer(reg))
	logger, hook := logtest.NewNullLogger()
	ctx := log.WithLogger(context.Background(), logrus.NewEntry(logger))
	img := w.lazily(build(t, threeLayers()...), all)

	classes := map[string]error{
		"not_converted":  errdefs.ErrNotFound,
		"invalid_labels": errdefs.ErrInvalidArgument,
		"host":           errdefs.ErrFailedPrecondition,
		"unavailable":    errdefs.ErrUnavailable,
		"internal":       errdefs.ErrInternal,
	}
	for why, class := range classes {
		w.m.Before = func(context.Context, string, string, int) error { return fmt.Errorf("because of %s: %w", why, class) }
		labels := snapshots.WithLabels(map[string]string{snapshots.LabelSnapshotRef: "t-" + why})
		mounts, err := w.s.Prepare(ctx, "k-"+why, "", labels)
		if err != nil || len(mounts) != 1 {
			t.Errorf("%s: %v %v", why, mounts, err)
		}
		if e := hook.LastEntry(); len(hook.Entries) != 1 || e.Data[logPrepared] != "false" || e.Data["reason"] != why ||
			!strings.Contains(fmt.Sprint(e.Data["error"]), "because of "+why) {
			t.Errorf("%s: log %+v", why, hook.Entries)
		}
		hook.Reset()
		if n := testutil.ToFloat64(w.s.(*snapshotter).metrics.layers.WithLabelValues("unpacked", why)); n != 1 {
			t.Errorf("%s counted %v times", why, n)
		}
	}
	w.m.Before = nil
	for key, why := range map[string]string{"default/7/extract-1-x sha256:y": "invalid_labels", "default/8/container": ""} { // of a client that says nothing
		if _, err := w.s.Prepare(ctx, key, ""); err != nil {
			t.Error(err)
		}
		if e := hook.LastEntry(); (e != nil) != (why != "") || e != nil && (e.Data[logPrepared] != "false" || e.Data["reason"] != why) {
			t.Errorf("%s: log %+v", key, hook.Entries)
		}
		hook.Reset()
	}
	labels := snapshots.WithLabels(map[string]string{snapshots.LabelSnapshotRef: "t", snapshottertest.LabelLayer: img[0].diffID().String()})
	if _, err := w.s.Prepare(ctx, "k", "", labels); !errdefs.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	if e := hook.LastEntry(); len(hook.Entries) != 1 || e.Data[logPrepared] != "true" {
		t.Errorf("log of a remote layer: %+v", hook.Entries)
	}
	if n, err := testutil.GatherAndCount(reg, "faasnet_snapshotter_layers_total"); err != nil || n != len(classes)+1 {
		t.Errorf("%d series, %v", n, err)
	}
}
