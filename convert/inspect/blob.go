package inspect

import (
	"crypto/sha256"
	"fmt"
	"io"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/layer"
)

// Blob finds out what a layer file is that has no annotations: it reads all of
// it for its digest, and finds the sections by the seek table. The error matches
// errdefs.ErrNotFound when it is no converted layer. What it returns is as good
// as the file, nothing vouches for it.
func Blob(r io.ReaderAt, size int64) (ocispec.Descriptor, error) {
	info, err := layer.Find(r, size, "") // before all of what may be something else is read
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("not a converted layer: %w", err)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(r, 0, size)); err != nil {
		return ocispec.Descriptor{}, err
	}
	info.Digest = digest.NewDigest(digest.SHA256, sum)
	return ocispec.Descriptor{MediaType: layer.MediaType, Digest: info.Digest, Size: size, Annotations: info.Annotations()}, nil
}

// section reads a section whose place came from layer.Find.
func section(r io.ReaderAt, ref block.Ref) ([]byte, error) {
	p := make([]byte, ref.Size)
	if n, err := r.ReadAt(p, ref.Offset); n != len(p) {
		return nil, fmt.Errorf("%v: %w", ref, err)
	}
	return p, nil
}

// OpenBlob reads the metadata of one layer that is seen alone.
func OpenBlob(r io.ReaderAt, desc ocispec.Descriptor) (*Image, error) {
	info, err := layer.FromLabels(desc.Annotations)
	if err != nil {
		return nil, err
	}
	p, err := section(r, info.Meta)
	if err != nil {
		return nil, err
	}
	meta, err := layer.ParseMeta(p)
	if err != nil {
		return nil, err
	}
	img := &Image{Layers: []Layer{{Descriptor: desc, Info: &info, Meta: meta}}}
	if info.Image == nil {
		return img, nil
	}
	if p, err = section(r, *info.Image); err != nil {
		return nil, err
	}
	img.Section, err = layer.ParseImage(p)
	return img, err
}
