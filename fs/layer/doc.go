// Package layer reads and writes the layer file of format version 1: zstd
// frames of blocks, metadata sections in skippable frames, a seek table, and
// the annotations that name them. docs/format.md specifies all of it; where
// the two differ, the document is right.
package layer

import (
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/fs/block"
)

// Version is the version of the format that this package reads and writes.
const Version = 1

// MediaType is the media type of a converted layer.
const MediaType = ocispec.MediaTypeImageLayerZstd

// MaxLayers bounds the layers that an image section describes.
const MaxLayers = 1024

// Sections is what Writer.Close puts behind the blocks.
type Sections struct {
	Index []byte // EROFS index of this layer
	Image *Image // nil except for the index layer of an image
}

// Meta is the metadata section of a layer.
type Meta struct {
	Table *block.Table
	Index []byte // EROFS index; not checked yet: index.Check does that
}

// Image is the image section: the merged index of an image and what each of
// its devices is.
type Image struct {
	Layers []ImageLayer // bottom first, without the index layer; EROFS device i (device_id i+1) is Layers[i]
	Index  []byte       // EROFS index; not checked yet: index.Check does that
}

// ImageLayer is one layer of an image.
type ImageLayer struct {
	Digest digest.Digest // of the blob
	Size   int64         // of the blob, bytes
	DiffID digest.Digest // of the tar stream
	Table  *block.Table
}
