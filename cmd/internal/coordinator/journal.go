package coordinator

import (
	"time"

	"github.com/faasnet/faasnet/cmd/internal/tree"
)

// Journal keeps trees outside of the process. No method blocks: they are
// called under the coordinator's lock. A coordinator works without any of
// them taking effect.
type Journal interface {
	// Save keeps the newest image of a tree.
	Save(k Key, image Image)
	// Forget drops a tree.
	Forget(k Key)
	// Owner returns the address of the coordinator that keeps k, "" for this
	// one.
	Owner(k Key) string
}

// Image is a tree as it is kept.
type Image struct {
	Epoch uint64
	VMs   []ImageVM
}

// ImageVM is a VM of an Image.
type ImageVM struct {
	VM        tree.VM
	Upstreams []tree.VM // of each stripe
	Blocks    uint64
	Joined    time.Time
}

// image is g as it is kept.
func (g *grove) image() Image {
	img := Image{Epoch: g.epoch(), VMs: make([]ImageVM, 0, g.tree.Len())}
	for vm := range g.tree.All() {
		v := ImageVM{VM: vm, Blocks: g.members[vm].blocks, Joined: g.members[vm].joined}
		for i := range g.tree.Stripes() {
			v.Upstreams = append(v.Upstreams, g.tree.Upstream(vm, i))
		}
		img.VMs = append(img.VMs, v)
	}
	return img
}

// nothing is the Journal of a coordinator that keeps its trees in memory.
type nothing struct{}

func (nothing) Save(Key, Image)  {}
func (nothing) Forget(Key)       {}
func (nothing) Owner(Key) string { return "" }
