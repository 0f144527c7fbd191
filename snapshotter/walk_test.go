package snapshotter

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
)

// question is what core/metadata of containerd asks for a layer that Prepare says is there.
func question(target, parent string) string {
	return fmt.Sprintf(`labels.%q==%s,parent==%q`, snapshots.LabelSnapshotRef, target, parent)
}

func TestWalkFindsTheTargetThatOverlayFinds(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	img := w.lazily(build(t, threeLayers()...), func(i int) bool { return i != 1 })
	w.must(w.pull("default", img))
	chain := img.chainIDs()
	labels := img[2].labels()
	labels[snapshots.LabelSnapshotRef] = img.top()
	_, err := w.s.Prepare(ctx, "extract", w.backend(chain[0]), snapshots.WithLabels(labels)) // gets another name
	if !errdefs.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	_, err = w.s.Prepare(ctx, "active", w.backend(chain[0]), snapshots.WithLabels(map[string]string{snapshots.LabelSnapshotRef: "chain"}))
	w.must(err)
	_, err = w.s.Prepare(ctx, "open", "")
	w.must(err)
	w.must(w.s.Commit(ctx, "chain/x", "open", snapshots.WithLabels(map[string]string{snapshots.LabelSnapshotRef: "chain/x"})))

	parents := []string{"", "nobody", w.backend(chain[0]), w.backend(chain[1]), w.backend(chain[2])}
	found := 0
	for _, target := range append(chain, "chain", "chain/x", "nothing") {
		for _, parent := range parents {
			var got, want []snapshots.Info
			take := func(to *[]snapshots.Info) snapshots.WalkFunc {
				return func(_ context.Context, info snapshots.Info) error { *to = append(*to, info); return nil }
			}
			err := w.s.Walk(ctx, take(&got), question(target, parent))
			werr := w.s.(*snapshotter).Snapshotter.Walk(ctx, take(&want), question(target, parent))
			if !reflect.DeepEqual(got, want) || (err == nil) != (werr == nil) {
				t.Errorf("%s on %q: %v, %v; overlay has %v, %v", target, parent, got, err, want, werr)
			}
			found += len(got)
		}
	}
	if found < 4 { // else the test asks for nothing
		t.Errorf("%d snapshots found", found)
	}
}

func TestAsksForTarget(t *testing.T) {
	for _, c := range []struct {
		filters []string
		ok      bool
	}{
		{[]string{question("sha256:ab", "default/1/sha256:cd")}, true},
		{[]string{question("sha256:ab", "")}, true},
		{[]string{question("sha256:ab", `p"q`)}, true},
		{nil, false},
		{[]string{question("sha256:ab", ""), question("sha256:ab", "p")}, false},
		{[]string{question("sha256:ab", "p") + ",kind==committed"}, false},
		{[]string{question(`"a"`, "p")}, false},
		{[]string{question("a,labels.b==c", "p")}, false},
		{[]string{`labels."containerd.io/snapshot.ref"==a`}, false},
		{[]string{`kind==committed`}, false},
	} {
		if target, parent, ok := asksForTarget(c.filters); ok != c.ok {
			t.Errorf("%q: %q %q %v", c.filters, target, parent, ok)
		}
	}
}

// BenchmarkRemoteLayers is the pull of an image of 17 remote layers, on a host that has others.
func BenchmarkRemoteLayers(b *testing.B) {
	for _, others := range []int{0, 34} {
		b.Run(fmt.Sprintf("images=%d", others), func(b *testing.B) {
			w := newWorld(b)
			one := build(b, tarOf(header{Name: "x", Body: "x"}))
			n := 0
			fresh := func() {
				labels := w.lazily(one, all)[0].labels()
				parent := ""
				for i := range 17 {
					target := fmt.Sprintf("sha256:%d-%d", n, i)
					labels[snapshots.LabelSnapshotRef] = target
					if _, err := w.sn.Prepare(in("default"), "extract-"+target, parent, snapshots.WithLabels(labels)); !errdefs.IsAlreadyExists(err) {
						b.Fatal(err)
					}
					parent = target
				}
				n++
			}
			for range others {
				fresh()
			}
			for b.Loop() {
				fresh()
			}
		})
	}
}

// backend is the name that the layer of a chain has below containerd's metadata.
func (w *world) backend(chain string) (name string) {
	w.t.Helper()
	w.must(w.s.Walk(context.Background(), func(_ context.Context, info snapshots.Info) error {
		name = info.Name
		return nil
	}, `kind==committed,labels."`+snapshots.LabelSnapshotRef+`"==`+chain))
	return name
}
