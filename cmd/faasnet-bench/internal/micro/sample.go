package micro

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/fs/block"
)

// Of each layer, so many blocks are in a sample, and so many before them are not.
const (
	sampled = 4
	left    = 12
)

// Sample returns blocks of an image in an OCI layout as conversion would cut
// them: some of each layer that is large enough.
func Sample(layout string) (blocks [][]byte, err error) {
	var index ocispec.Index
	if err := readJSON(filepath.Join(layout, ocispec.ImageIndexFile), &index); err != nil {
		return nil, err
	}
	if len(index.Manifests) != 1 {
		return nil, fmt.Errorf("%s holds %d images", layout, len(index.Manifests))
	}
	var manifest ocispec.Manifest
	if err := readJSON(blob(layout, index.Manifests[0]), &manifest); err != nil {
		return nil, err
	}
	for _, l := range manifest.Layers {
		some, err := sampleLayer(blob(layout, l))
		if err != nil {
			return nil, fmt.Errorf("layer %v: %w", l.Digest, err)
		}
		blocks = append(blocks, some...)
	}
	if len(blocks) == 0 {
		return nil, fmt.Errorf("%s: no layer of %d bytes", layout, (left+1)*block.DefaultSize)
	}
	return blocks, nil
}

func sampleLayer(file string) (blocks [][]byte, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	for i := range left + sampled {
		p := make([]byte, block.DefaultSize)
		_, err := io.ReadFull(zr, p)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if i >= left {
			blocks = append(blocks, p)
		}
	}
	return blocks, nil
}

func blob(layout string, d ocispec.Descriptor) string {
	return filepath.Join(layout, ocispec.ImageBlobsDir, d.Digest.Algorithm().String(), d.Digest.Encoded())
}

func readJSON(file string, v any) error {
	p, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(p, v)
}
