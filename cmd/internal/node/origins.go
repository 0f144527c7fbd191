package node

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/containerd/containerd/v2/pkg/snapshotters"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/layer"
	"github.com/faasnet/faasnet/fs/registry"
)

// refLabel says which image a layer is pulled for. A manifest's annotations
// become labels too, and an image must not name the repository that is read
// with the credentials of this VM. So this label alone is believed: CRI plugin,
// transfer service and `faasnet pull` write it over whatever the manifest says.
const refLabel = snapshotters.TargetRefLabel

// maxRefs bounds the references that are remembered for one blob.
const maxRefs = 8

// origins remembers under which image references each blob was seen. A layer is
// shared by images whose repositories have credentials of their own, and any of
// them may be gone: all are tried, the newest first.
type origins struct {
	client interface {
		Blobs(ref string) (block.Source, error)
	}

	mu    sync.Mutex // guards the rest; the store's locks are held when it is taken
	refs  map[digest.Digest][]string
	known map[string]block.Source // by the references joined
}

func newOrigins(c *registry.Client) *origins {
	return &origins{client: c, refs: map[digest.Digest][]string{}, known: map[string]block.Source{}}
}

// add remembers that blob is part of the image ref.
func (o *origins) add(blob digest.Digest, ref string) error {
	if _, err := o.client.Blobs(ref); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	old := o.refs[blob]
	if len(old) > 0 && old[0] == ref {
		return nil
	}
	fresh := append([]string{ref}, slices.DeleteFunc(slices.Clone(old), func(r string) bool { return r == ref })...)
	o.refs[blob] = fresh[:min(len(fresh), maxRefs)]
	return nil
}

// share remembers that an image which has the upper layers of a chain has the
// lower ones too: containerd names only the first image that a layer came with,
// and that one may be gone. These references are tried last.
func (o *origins) share(chain []layer.Info, labels []map[string]string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, info := range chain {
		for _, above := range labels[i+1:] {
			refs, ref := o.refs[info.Digest], above[refLabel]
			if len(refs) < maxRefs && !slices.Contains(refs, ref) {
				o.refs[info.Digest] = append(slices.Clip(refs), ref)
			}
		}
	}
}

// source is a fetch.Origin.
func (o *origins) source(blob digest.Digest) block.Source {
	o.mu.Lock()
	defer o.mu.Unlock()
	refs := o.refs[blob]
	if len(refs) == 0 {
		return nil
	}
	key := strings.Join(refs, "\n")
	if s, ok := o.known[key]; ok {
		return s
	}
	var sources []block.Source
	for _, ref := range refs {
		if s, err := o.client.Blobs(ref); err == nil { // add has tried it
			sources = append(sources, s)
		}
	}
	s := registry.Any(sources...)
	o.known[key] = s
	return s
}

// has reports whether blob is of any image that is known.
func (o *origins) has(blob digest.Digest) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.refs[blob]) > 0
}

// retain forgets blobs that are not live.
func (o *origins) retain(live func(digest.Digest) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for blob := range o.refs {
		if !live(blob) {
			delete(o.refs, blob)
		}
	}
	clear(o.known) // made again for those who are left
}

// parse reads the labels of a layer and remembers where it comes from.
func (o *origins) parse(labels map[string]string) (layer.Info, error) {
	info, err := layer.FromLabels(labels)
	if err != nil {
		return layer.Info{}, err
	}
	ref := labels[refLabel]
	if ref == "" {
		return layer.Info{}, fmt.Errorf("layer %v: no label says which image it is pulled for (pull with `faasnet pull`, or with containerd 2.1 or later): %w", info.Digest, errdefs.ErrInvalidArgument)
	}
	return info, o.add(info.Digest, ref)
}
