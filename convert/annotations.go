package convert

import (
	"fmt"
	"maps"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/fs/layer"
)

// AnnotationOptions records with what options a layer was converted, so that
// another conversion with the same ones can use the layer again. It says
// nothing that a reader of the layer needs. Converted blobs carry it also as a
// label in content stores that have labels.
const AnnotationOptions = "containerd.io/faasnet/options"

// foreign are the prefixes of annotations by which other lazy formats describe
// the bytes of a blob. They would be false for the converted blob.
var foreign = []string{
	"containerd.io/snapshot/", // eStargz, nydus, overlaybd, erofs, and ours of another conversion
	"io.containers.estargz.",
	"io.github.containers.zstd-chunked.",
	"com.amazon.soci.",
	"org.opencontainers.image.enc.",
}

// options is the value of AnnotationOptions.
func (c *Converter) options() string {
	return fmt.Sprintf("block=%d,level=%s", c.o.BlockSize, c.o.Level)
}

// annotate gives the annotations of a converted layer whose source had those
// of from: all of from that still hold, and ours. A start layer that is
// converted with other options stays one. What is above it is not known before
// the image is whole, and i may be from another image: sayAbove tells.
func (c *Converter) annotate(from map[string]string, i layer.Info) map[string]string {
	i.Above = nil
	if old, err := layer.FromLabels(from); err == nil {
		i.Start = i.Start || old.Start
	}
	out := make(map[string]string)
	for k, v := range from {
		if !isForeign(k) {
			out[k] = v
		}
	}
	maps.Copy(out, i.Annotations())
	out[AnnotationOptions] = c.options()
	return out
}

func isForeign(key string) bool {
	for _, p := range foreign {
		if strings.HasPrefix(key, p) {
			return true
		}
	}
	return false
}

// reusable says whether a layer with these annotations was converted with the
// options of c.
func (c *Converter) reusable(annotations map[string]string) (layer.Info, bool) {
	i, err := layer.FromLabels(annotations)
	return i, err == nil && i.Image == nil && annotations[AnnotationOptions] == c.options()
}

// isIndexLayer says whether a descriptor is that of an image's index layer.
func isIndexLayer(desc ocispec.Descriptor) bool {
	i, err := layer.FromLabels(desc.Annotations)
	return err == nil && i.Image != nil
}

// isStartLayer says whether a descriptor is that of an image's start layer.
func isStartLayer(desc ocispec.Descriptor) bool {
	i, err := layer.FromLabels(desc.Annotations)
	return err == nil && i.Start
}
