package sim

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
	"github.com/faasnet/faasnet/fs/registry/registrytest"
	"github.com/faasnet/faasnet/peer"
)

// repository is where all images are.
const repository = "fleet"

// image is what a function is made of.
type image struct {
	function string
	section  []byte // what is read first: with it a VM knows the layers
	ref      block.Ref
	layers   []*blocktest.Layer

	full  [][]byte // blobs of a full pull, which nobody reads in blocks
	blobs []string // names of these in the registry
}

// newImage makes an image of incompressible blocks, the same for the same seed.
func newImage(seed uint64, blockSize int, blocks ...int) *image {
	m := &image{}
	m.setSection(blocktest.Random(seed, blockSize))
	m.addLayers(seed, blockSize, blockSize, blocks...)
	return m
}

// addLayers adds layers of so many blocks, of whose bytes some do not compress and
// the others vanish.
func (m *image) addLayers(seed uint64, blockSize, random int, blocks ...int) {
	for i, n := range blocks {
		stream := blocktest.Random(seed<<8|uint64(i+1), n*blockSize)
		for p := range slices.Chunk(stream, blockSize) {
			clear(p[random:])
		}
		m.layers = append(m.layers, blocktest.Cut(stream, blockSize))
	}
}

// setSection sets what is read first, which names the function.
func (m *image) setSection(p []byte) {
	m.section = p
	m.ref = blocktest.SectionRef(blocktest.Digest(p), 0, p)
	m.function = m.ref.Blob.String()
}

// push puts the image into a registry.
func (m *image) push(r *registrytest.Registry) error {
	blobs := [][]byte{m.section}
	for _, l := range m.layers {
		blobs = append(blobs, l.Blob)
	}
	for _, b := range blobs {
		if _, _, err := r.AddBlob(repository, bytes.NewReader(b)); err != nil {
			return fmt.Errorf("image: %w", err)
		}
	}
	for _, p := range m.full {
		d, _, err := r.AddBlob(repository, bytes.NewReader(p))
		if err != nil {
			return fmt.Errorf("image: %w", err)
		}
		m.blobs = append(m.blobs, d.String())
	}
	return nil
}

// blocks returns how many blocks all layers have.
func (m *image) blocks() (n int) {
	for _, l := range m.layers {
		n += l.Table.Len()
	}
	return n
}

// bytes returns how large the image is as it travels.
func (m *image) bytes() int64 {
	n := int64(len(m.section))
	for _, l := range m.layers {
		n += l.Table.Bytes()
	}
	return n
}

// catalog returns the layers as a relay wants to know them.
func (m *image) catalog() (out []peer.Layer) {
	for _, l := range m.layers {
		out = append(out, peer.Layer{Blob: l.Digest, Table: l.Table})
	}
	return out
}
