package node

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/faasnet/faasnet/cmd/internal/config"
	"github.com/faasnet/faasnet/cmd/internal/coordinator"
	record "github.com/faasnet/faasnet/convert/start"
	"github.com/faasnet/faasnet/fs/fetch"
	"github.com/faasnet/faasnet/fs/index/indextest"
	"github.com/faasnet/faasnet/fs/layer"
	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

// startBlocks is how many blocks the start layer of the test image has.
const startBlocks = 13

// newStart has an image with a start layer of two of its three files.
func newStart(t *testing.T) *world {
	t.Helper()
	return newRecordedWorld(t, registrytest.Options{}, record.Record{{Path: "then"}, {Path: "first"}}, tarOf(
		indextest.Header{Name: "first", Body: text(2, 3<<20)},
		indextest.Header{Name: "then", Body: text(3, 3<<20)},
		indextest.Header{Name: "other", Body: text(1, 2<<20)},
	))
}

// offsets are where the requests for a blob begin, in their order.
func (w *world) offsets(blob string) (out []int) {
	for _, q := range w.reg.Requests() {
		if q.Is(registrytest.Blobs) && strings.HasSuffix(q.Path, blob) {
			var off int
			fmt.Sscanf(q.Header.Get("Range"), "bytes=%d-", &off)
			out = append(out, off)
		}
	}
	return out
}

func (w *world) digest(i int) string {
	return w.labels[i]["containerd.io/snapshot/faasnet/layer.digest"]
}

// above changes what layers say of those above them; nil: they say nothing.
func (w *world) above(t *testing.T, change func(*layer.Above)) {
	t.Helper()
	for _, l := range w.labels {
		info, err := layer.FromLabels(l)
		if err != nil {
			t.Fatal(err)
		}
		if a := info.Above; a != nil && change != nil {
			change(a)
			layer.WithAbove(l, a)
		} else {
			layer.WithAbove(l, nil)
		}
	}
}

// idle waits until all that claims and mounts began in the background has ended.
func (d *daemon) idle(t *testing.T) {
	t.Helper()
	eventually(t, func() bool {
		d.starts.mu.Lock()
		defer d.starts.mu.Unlock()
		for _, l := range d.starts.known {
			if l.stop != nil {
				return false
			}
		}
		return true
	})
}

// The blocks of a start layer come in order, once, without any read, as soon as
// the image is pulled: with other VMs, without, and where no coordinator answers.
func TestStartLayer(t *testing.T) {
	for _, where := range []string{"alone", "in a tree", "no coordinator"} {
		t.Run(where, func(t *testing.T) {
			w := newStart(t)
			c := w.config()
			switch where {
			case "in a tree":
				c = w.inTree(t, "vm", coordinate(t, coordinator.Options{}))
			case "no coordinator":
				c = w.inTree(t, "vm", "127.0.0.1:1")
				c.Tree.JoinTimeout = config.Default().Tree.JoinTimeout
			}
			undo := w.reg.Every(registrytest.Of(registrytest.Blobs), registrytest.Fault{Delay: 20 * time.Millisecond}) // so that requests keep their order on the way
			d := start(t, t.TempDir(), c)
			d.pulled(t, w.labels)
			claimed := time.Now()
			eventually(t, func() bool { return d.store.Usage().Blocks == startBlocks })
			d.idle(t)
			undo()
			got := w.offsets(w.digest(1))
			if len(got) != startBlocks || !nearlySorted(got) {
				t.Errorf("asked for the blocks at %d", got)
			}
			requests := w.reg.Requests()
			for _, q := range requests {
				if strings.HasSuffix(q.Path, w.digest(1)) {
					t.Logf("first block %v, image section %v after the claim", q.Time.Sub(claimed), requests[0].Time.Sub(claimed))
					break
				}
			}
			if n := blobRequests(w); n != startBlocks+1 {
				t.Errorf("%d requests, want those and the image section", n)
			}
			dir := d.mount(t, "container", w.labels)
			readFile(t, filepath.Join(dir, "first"), text(2, 3<<20))
			readFile(t, filepath.Join(dir, "then"), text(3, 3<<20))
			d.idle(t)
			if n := blobRequests(w); n != startBlocks+1 {
				t.Errorf("%d requests after all was read", n)
			}
			d.counted(t, startWhole)
			if n := testutil.ToFloat64(d.metrics.startBlocks); n != startBlocks {
				t.Errorf("%v blocks are counted", n)
			}
			if n := testutil.CollectAndCount(d.metrics.startSeconds); n != 1 {
				t.Errorf("%d histograms", n)
			}
			l := d.layers(t, "container")[1]
			if s := l.Stats(); s.Present != startBlocks || s.Waits > 1 {
				t.Errorf("%+v", s)
			}
			readFile(t, filepath.Join(dir, "other"), text(1, 2<<20))
		})
	}
}

// nearlySorted allows for a few requests that are sent at the same time.
func nearlySorted(s []int) bool {
	for i, off := range slices.Sorted(slices.Values(s)) {
		if now := slices.Index(s, off); now < i-3 || now > i+3 {
			return false
		}
	}
	return true
}

// Three VMs that start at once ask the registry for a start layer hardly more
// than once, also when they were asked for no more than the lowest layer.
func TestStartLayerInFleet(t *testing.T) {
	for name, layers := range map[string]int{"all layers": 3, "the lowest layer": 1} {
		t.Run(name, func(t *testing.T) {
			w := newStart(t)
			at := coordinate(t, coordinator.Options{})
			var vms []*daemon
			for _, name := range []string{"one", "two", "three"} {
				vms = append(vms, start(t, t.TempDir(), w.inTree(t, name, at)))
			}
			for _, d := range vms {
				d.pulled(t, w.labels[:layers])
			}
			for _, d := range vms {
				eventually(t, func() bool { return d.store.Usage().Blocks == startBlocks })
			}
			n := len(w.offsets(w.digest(1)))
			if n >= startBlocks*len(vms) { // some may be hedges on a slow machine
				t.Errorf("%d requests for %d blocks", n, startBlocks)
			}
			t.Logf("%d requests for %d blocks", n, startBlocks)
		})
	}
}

// A label that is on the wrong layer, or on one that is not of the image, or that
// is not heeded, fetches nothing and harms nothing.
func TestStartLayerThatIsNone(t *testing.T) {
	for name, spoil := range map[string]func(w *world, d *daemon){
		"not the top layer": func(w *world, _ *daemon) {
			w.above(t, nil)
			delete(w.labels[1], layer.LabelStart)
			w.labels[0][layer.LabelStart] = "true"
		},
		"not the top layer by those below": func(w *world, _ *daemon) {
			delete(w.labels[1], layer.LabelStart)
			w.above(t, func(a *layer.Above) { a.Start = digest.Digest(w.digest(0)) })
		},
		"not of the image": func(w *world, d *daemon) {
			w.above(t, nil)
			delete(w.labels[1], layer.LabelStart)
			stray := newWorld(t).labels[0]
			stray[layer.LabelStart] = "true"
			if err := d.Claim(t.Context(), stray); err != nil {
				t.Error(err)
			}
		},
		"switched off": func(_ *world, d *daemon) { d.starts.off = true },
	} {
		t.Run(name, func(t *testing.T) {
			w := newStart(t)
			d := start(t, t.TempDir(), w.config())
			spoil(w, d)
			d.pulled(t, w.labels)
			dir := d.mount(t, "container", w.labels)
			d.idle(t)
			if n := blobRequests(w); n != 1 {
				t.Errorf("%d requests, want that for the image section", n)
			}
			indextest.Compare(t, overlay(t, topFirst(w.dirs)...), overlay(t, dir), likeUnpacked)
		})
	}
}

// counted fails unless one fetch of a start layer has ended, like this.
func (d *daemon) counted(t *testing.T, how string) {
	t.Helper()
	for _, result := range []string{startWhole, startPart, startFailed, startCanceled} {
		want := 0.0
		if result == how {
			want = 1
		}
		if n := testutil.ToFloat64(d.metrics.starts.WithLabelValues(result)); n != want {
			t.Errorf("%v fetches of start layers are %s, want %v", n, result, want)
		}
	}
}

// What does not come is counted, and so is a limit on what is fetched ahead.
func TestStartLayerInPart(t *testing.T) {
	for how, spoil := range map[string]func(w *world, c *config.Config){
		startFailed: func(w *world, _ *config.Config) {
			w.reg.Every(func(q *http.Request) bool { return strings.HasSuffix(q.URL.Path, w.digest(1)) }, registrytest.Fault{Status: http.StatusNotFound})
		},
		startPart: func(_ *world, c *config.Config) { c.Store.MaxBytes = startShare * 2 << 20 },
	} {
		t.Run(how, func(t *testing.T) {
			w := newStart(t)
			c := w.config()
			spoil(w, c)
			d := start(t, t.TempDir(), c)
			d.pulled(t, w.labels)
			eventually(t, func() bool { return testutil.ToFloat64(d.metrics.starts.WithLabelValues(how)) == 1 })
			d.counted(t, how)
		})
	}
}

// The fetch ends with the daemon, and with the image.
func TestStartLayerEnds(t *testing.T) {
	w := newStart(t)
	w.reg.Every(func(q *http.Request) bool { return strings.HasSuffix(q.URL.Path, w.digest(1)) }, registrytest.Fault{Hang: true})
	d := start(t, t.TempDir(), w.config())
	hang := func() {
		before := len(w.offsets(w.digest(1)))
		d.pulled(t, w.labels)
		eventually(t, func() bool { return len(w.offsets(w.digest(1))) > before })
	}
	hang()
	if err := d.Retain(t.Context(), w.labels); err != nil {
		t.Fatal(err)
	}
	if d.starts.any() {
		t.Error("not fetched any more, with the image there")
	}
	if err := d.Retain(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		return !slices.ContainsFunc(w.reg.Requests(), func(q registrytest.Request) bool { return !q.Done })
	})
	if len(d.starts.known) != 0 {
		t.Errorf("still known: %v", d.starts.known)
	}
	eventually(t, func() bool { return testutil.ToFloat64(d.metrics.starts.WithLabelValues(startCanceled)) == 1 })
	d.counted(t, startCanceled)
	hang()
	d.stop() // waits for all that is under way
}

// A mount brings what an earlier daemon had not, or the first try.
func TestStartLayerAfterRestart(t *testing.T) {
	w := newStart(t)
	for _, l := range w.labels {
		l[manifestLabel] = digest.FromString("manifest").String()
	}
	undo := w.reg.Every(func(q *http.Request) bool { return strings.HasSuffix(q.URL.Path, w.digest(1)) }, registrytest.Fault{Hang: true})
	root := t.TempDir()
	d := start(t, root, w.config())
	d.pulled(t, w.labels)
	eventually(t, func() bool { return len(w.offsets(w.digest(1))) > 0 })
	d.stop()
	undo()
	d = start(t, root, w.config())
	if err := d.Retain(t.Context(), w.labels); err != nil {
		t.Fatal(err)
	}
	d.mount(t, "container", w.labels)
	eventually(t, func() bool { return d.layers(t, "container")[1].Stats().Present == startBlocks })
}

// layers are those that a user's only mount reads.
func (d *daemon) layers(t *testing.T, user string) []*fetch.Layer {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.users[user] {
		return s.layers
	}
	t.Fatalf("%s has no mount", user)
	return nil
}
