package layer

import (
	"fmt"
	"strconv"

	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/block"
)

// Keys of annotations and labels. containerd hands every annotation with this
// prefix to a snapshotter, as a label of the same key.
const (
	prefix = "containerd.io/snapshot/faasnet/"

	keyVersion     = prefix + "version"
	keyDigest      = prefix + "layer.digest"
	keySize        = prefix + "layer.size"
	keyMetaDigest  = prefix + "meta.digest"
	keyMetaRange   = prefix + "meta.range"
	keyImageDigest = prefix + "image.digest"
	keyImageRange  = prefix + "image.range"
)

// LabelStart is the key, with the value "true", of a start layer: copies of the
// files that a container reads while it starts, in that order. A VM that is
// asked for such a layer fetches it at once.
const LabelStart = prefix + "start"

// LabelAbove is the key of what a layer says of those above it, see Above.
const LabelAbove = prefix + "above"

// Info is what annotations say of a layer: enough to fetch its sections.
type Info struct {
	Version int
	Digest  digest.Digest // of the blob, always SHA-256
	Size    int64         // of the blob, bytes
	Meta    block.Ref
	Image   *block.Ref // nil except for the index layer of an image
	Start   bool       // whether it is a start layer, see LabelStart
	Above   *Above     // nil for an index layer, and for a layer of an image without one
}

// Annotations returns the annotations that FromLabels reads back.
func (i Info) Annotations() map[string]string {
	m := map[string]string{
		keyVersion:    strconv.Itoa(i.Version),
		keyDigest:     i.Digest.String(),
		keySize:       strconv.FormatInt(i.Size, 10),
		keyMetaDigest: digestOf(i.Meta.Sum).String(),
		keyMetaRange:  rangeOf(i.Meta),
	}
	if i.Image != nil {
		m[keyImageDigest] = digestOf(i.Image.Sum).String()
		m[keyImageRange] = rangeOf(*i.Image)
	}
	if i.Start {
		m[LabelStart] = "true"
	}
	if i.Above != nil {
		m[LabelAbove] = i.Above.String()
	}
	return m
}

func digestOf(s block.Sum) digest.Digest {
	return digest.NewDigestFromBytes(digest.SHA256, s[:])
}

func rangeOf(r block.Ref) string { return fmt.Sprintf("%d-%d", r.Offset, r.Size) }
