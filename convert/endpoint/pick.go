package endpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// pick finds the image that ref selects in the index.json of a layout or
// archive: by name, by tag, by digest, or the only one there is.
func pick(idx ocispec.Index, ref string) (ocispec.Descriptor, error) {
	full := ref // docker save writes names in full, people do not
	if r, err := reference.ParseDockerRef(ref); err == nil {
		full = r.String()
	}
	var found []ocispec.Descriptor
	for _, m := range idx.Manifests {
		if n := names(m); ref == "" || slices.Contains(n, ref) || slices.Contains(n, full) || m.Digest.String() == ref {
			if !slices.ContainsFunc(found, func(d ocispec.Descriptor) bool { return d.Digest == m.Digest }) {
				found = append(found, m)
			}
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0 && ref == "":
		return ocispec.Descriptor{}, fmt.Errorf("has no image: %w", errdefs.ErrNotFound)
	case len(found) == 0:
		return ocispec.Descriptor{}, fmt.Errorf("has no image %q, only %s: %w", ref, list(idx.Manifests), errdefs.ErrNotFound)
	default:
		return ocispec.Descriptor{}, fmt.Errorf("%q fits several images, name one of %s: %w", ref, list(found), errdefs.ErrInvalidArgument)
	}
}

// names gives the names of an image: the full one, and the tag alone.
func names(m ocispec.Descriptor) []string {
	var out []string
	for _, key := range []string{images.AnnotationImageName, ocispec.AnnotationRefName} {
		if v := m.Annotations[key]; v != "" {
			out = append(out, v)
		}
	}
	return out
}

func list(ms []ocispec.Descriptor) string {
	var out []string
	for _, m := range ms {
		if n := names(m); len(n) > 0 {
			out = append(out, n[0])
		} else {
			out = append(out, m.Digest.String())
		}
	}
	return strings.Join(out, ", ")
}

// unnamed is the descriptor of an image without what an index.json said about
// its name.
func unnamed(m ocispec.Descriptor) ocispec.Descriptor {
	kept := make(map[string]string)
	for k, v := range m.Annotations {
		if k != images.AnnotationImageName && k != ocispec.AnnotationRefName {
			kept[k] = v
		}
	}
	m.Annotations = nil
	if len(kept) > 0 {
		m.Annotations = kept
	}
	return m
}

// readIndex reads an index blob.
func readIndex(ctx context.Context, p content.Provider, desc ocispec.Descriptor) (ocispec.Index, error) {
	var idx ocispec.Index
	b, err := content.ReadBlob(ctx, p, desc)
	if err != nil {
		return idx, err
	}
	if digest.FromBytes(b) != desc.Digest {
		return idx, fmt.Errorf("index %s: %w", desc.Digest, errdefs.ErrDataLoss)
	}
	if err := json.Unmarshal(b, &idx); err != nil {
		return idx, fmt.Errorf("index %s: %w: %w", desc.Digest, err, errdefs.ErrInvalidArgument)
	}
	return idx, nil
}
