package layer

import (
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/block"
)

// Above is what a layer's annotations say of the layers above it in its image: enough
// to fetch what a start needs first when the lowest layer is asked for, which is a good
// while before the index layer is, since containerd asks for one after the other.
type Above struct {
	Index digest.Digest // of the index layer's blob
	Size  int64         // of that blob, bytes
	Image block.Ref     // the image section, in that blob
	Start digest.Digest // of the start layer's blob; empty: there is none
}

// AboveOf returns what the layers below an image's index layer say of it, and of its
// start layer, if it has one.
func AboveOf(index Info, start digest.Digest) Above {
	return Above{Index: index.Digest, Size: index.Size, Image: *index.Image, Start: start}
}

// WithAbove puts a into annotations of a layer, nil takes it out of them.
func WithAbove(annotations map[string]string, a *Above) {
	if a == nil {
		delete(annotations, LabelAbove)
		return
	}
	annotations[LabelAbove] = a.String()
}

// String is the value of the annotation: digest and size of the index layer's blob,
// digest and range of the image section, and the digest of the start layer's blob,
// if there is one.
func (a Above) String() string {
	s := fmt.Sprintf("%s/%d/%s/%s", a.Index, a.Size, digestOf(a.Image.Sum), rangeOf(a.Image))
	if a.Start != "" {
		s += "/" + a.Start.String()
	}
	return s
}

// parseAbove is the opposite of String.
func parseAbove(s string) (*Above, error) {
	f := strings.Split(s, "/")
	if len(f) != 4 && len(f) != 5 {
		return nil, invalid(LabelAbove, s, "want 4 or 5 parts")
	}
	// The rules of an index layer are those of its own annotations.
	index, err := blobOf(f[0], f[1])
	if err != nil {
		return nil, invalid(LabelAbove, s, err.Error())
	}
	a := &Above{Index: index.Digest, Size: index.Size}
	if a.Image, err = index.section(map[string]string{keyImageDigest: f[2], keyImageRange: f[3]}, keyImageDigest, keyImageRange); err != nil {
		return nil, invalid(LabelAbove, s, err.Error())
	}
	if len(f) == 5 {
		if _, err := parseSum(f[4]); err != nil {
			return nil, invalid(LabelAbove, s, err.Error())
		}
		a.Start = digest.Digest(f[4])
	}
	return a, nil
}
