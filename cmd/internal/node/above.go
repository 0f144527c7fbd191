package node

import "github.com/faasnet/faasnet/fs/layer"

// foresee makes known what a claimed layer says of those above it in its image, and
// returns it if that is news: the image section, and then the start layer, are fetched
// while containerd still asks for one layer after the other. It is not believed longer
// than it takes to ask for them, or else the layers of an image that is gone would stay
// with those that it shares with others: the next Retain forgets those that were not
// asked for. n.retaining is read-locked.
func (n *Node) foresee(labels map[string]string, info layer.Info) *layer.Above {
	above, ref := info.Above, labels[refLabel]
	if above == nil || n.origins.has(above.Index) {
		return nil
	}
	blobs := []layer.Info{{Digest: above.Index, Image: &above.Image}}
	if above.Start != "" {
		blobs = append(blobs, layer.Info{Digest: above.Start, Image: &above.Image, Start: true})
	}
	for _, blob := range blobs {
		if err := n.origins.add(blob.Digest, ref); err != nil {
			return nil // as the layer itself, which was added
		}
		n.list(labels, blob)
		n.starts.ask(blob)
	}
	return above
}
