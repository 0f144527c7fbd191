package inspect

import (
	"crypto/sha256"
	"fmt"
	"io"

	"github.com/containerd/errdefs"
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
	frames, err := layer.ReadSeekTable(r, size)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("not a converted layer: %v: %w", err, errdefs.ErrNotFound) //nolint:errorlint // it changes the class
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(r, 0, size)); err != nil {
		return ocispec.Descriptor{}, err
	}
	info := layer.Info{Version: layer.Version, Digest: digest.NewDigest(digest.SHA256, sum), Size: size}
	// The metadata section comes last, or before the image section.
	for i := len(frames) - 1; i >= 0 && i >= len(frames)-2; i-- {
		ref, p, err := section(r, info.Digest, frames[i])
		if err != nil {
			return ocispec.Descriptor{}, err
		}
		if _, err := layer.ParseMeta(p); err == nil {
			info.Meta = ref
			return ocispec.Descriptor{MediaType: layer.MediaType, Digest: info.Digest, Size: size, Annotations: info.Annotations()}, nil
		}
		if _, err := layer.ParseImage(p); err != nil {
			break
		}
		info.Image = &ref
	}
	return ocispec.Descriptor{}, fmt.Errorf("not a converted layer: no metadata section: %w", errdefs.ErrNotFound)
}

func section(r io.ReaderAt, blob digest.Digest, f layer.Frame) (block.Ref, []byte, error) {
	if f.Length != 0 || f.Size < 1 || f.Size > block.MaxSection {
		return block.Ref{}, nil, fmt.Errorf("not a converted layer: no section at the end: %w", errdefs.ErrNotFound)
	}
	p := make([]byte, f.Size)
	if n, err := r.ReadAt(p, f.Offset); n != len(p) {
		return block.Ref{}, nil, err
	}
	return block.Ref{Blob: blob, Number: block.Section, Offset: f.Offset, Size: len(p), Sum: sha256.Sum256(p)}, p, nil
}

// OpenBlob reads the metadata of one layer that is seen alone.
func OpenBlob(r io.ReaderAt, desc ocispec.Descriptor) (*Image, error) {
	info, err := layer.FromLabels(desc.Annotations)
	if err != nil {
		return nil, err
	}
	_, p, err := section(r, desc.Digest, layer.Frame{Offset: info.Meta.Offset, Size: int64(info.Meta.Size)})
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
	if _, p, err = section(r, desc.Digest, layer.Frame{Offset: info.Image.Offset, Size: int64(info.Image.Size)}); err != nil {
		return nil, err
	}
	img.Section, err = layer.ParseImage(p)
	return img, err
}
