package node

import (
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/cmd/internal/config"
	"github.com/faasnet/faasnet/cmd/internal/coordinator"
	"github.com/faasnet/faasnet/fs/layer"
	"github.com/faasnet/faasnet/fs/store"
)

// The lowest layer alone brings the image section and the start layer, once: with
// other VMs, without, and with clients that do not say which manifest they pull.
func TestAboveTheFirstLayer(t *testing.T) {
	for name, set := range map[string]func(t *testing.T, w *world) *config.Config{
		"alone": func(_ *testing.T, w *world) *config.Config { return w.config() },
		"in a tree": func(t *testing.T, w *world) *config.Config {
			return w.inTree(t, "vm", coordinate(t, coordinator.Options{}))
		},
		"in a tree with a manifest": func(t *testing.T, w *world) *config.Config {
			for _, l := range w.labels {
				l[manifestLabel] = digest.FromString("manifest").String()
			}
			return w.inTree(t, "vm", coordinate(t, coordinator.Options{}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newStart(t)
			d := start(t, t.TempDir(), set(t, w))
			d.pulled(t, w.labels[:1])
			eventually(t, func() bool { return d.store.Usage().Blocks == startBlocks })
			d.idle(t)
			if n := blobRequests(w); n != startBlocks+1 {
				t.Errorf("%d requests, want the start layer's and the image section", n)
			}
			d.pulled(t, w.labels[1:])
			dir := d.mount(t, "container", w.labels)
			readFile(t, dir+"/first", text(2, 3<<20))
			d.idle(t)
			if n := blobRequests(w); n != startBlocks+1 {
				t.Errorf("%d requests after a read of what is here", n)
			}
		})
	}
}

// Nothing stays of what was fetched for an image whose pull has ended early, though
// a layer that names it is there: another image may have that.
func TestAboveOfAnImageThatIsGone(t *testing.T) {
	w := newStart(t)
	d := start(t, t.TempDir(), w.config())
	d.pulled(t, w.labels[:1])
	eventually(t, func() bool { return d.store.Usage().Blocks == startBlocks })
	d.idle(t)
	for range 2 {
		if err := d.Retain(t.Context(), w.labels[:1]); err != nil {
			t.Fatal(err)
		}
		if n := d.store.Usage().Blocks; n != 0 || d.starts.any() {
			t.Errorf("%d blocks are left", n)
		}
	}
	eventually(t, func() bool { return d.store.Usage() == (store.Usage{}) })
	d.pulled(t, w.labels[1:])
	d.mount(t, "container", w.labels)
	l := d.layers(t, "container")[1] // its file may have stayed, while it was being sealed
	eventually(t, func() bool { return l.Stats().Present == startBlocks })
}

// What a layer says of others is worth what its own labels are: a section that does
// not come, or is none, leaves the image as it is without.
func TestAboveThatIsWrong(t *testing.T) {
	w := newStart(t)
	w.above(t, func(a *layer.Above) { a.Image.Offset-- })
	d := start(t, t.TempDir(), w.config())
	d.pulled(t, w.labels)
	dir := d.mount(t, "container", w.labels)
	readFile(t, dir+"/first", text(2, 3<<20))
	readFile(t, dir+"/other", text(1, 2<<20))
}
