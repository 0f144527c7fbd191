package convert_test

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/convert"
	"github.com/faasnet/faasnet/convert/imagetest"
	"github.com/faasnet/faasnet/fs/index/indextest"
)

// image converts an image of these tar streams.
func image(t *testing.T, cs content.Store, o convert.Options, tars ...[]byte) ocispec.Descriptor {
	t.Helper()
	var layers []imagetest.Layer
	for _, tar := range tars {
		layers = append(layers, imagetest.Layer{Tar: tar})
	}
	out, err := convert.Image(t.Context(), cs, imagetest.Put(t, cs, imagetest.Image{Layers: layers}), o)
	if err != nil {
		t.Fatal(err)
	}
	return *out
}

func TestCF03_LinkBeforeTarget(t *testing.T) {
	t.Run("a link after its target", func(t *testing.T) {
		var tar indextest.Tar
		tar.Add(indextest.Header{Name: "a/t", Body: "T"},
			indextest.Header{Name: "b/c/h2", Type: '1', Link: "a/t"},
			indextest.Header{Name: "h3", Type: '1', Link: "./a/t"})
		cs := newStore(t)
		sameTree(t, cs, image(t, cs, convert.Options{}, tar.Bytes()), tar.Bytes())
	})
	t.Run("a link before its target", func(t *testing.T) {
		var tar indextest.Tar
		tar.Add(indextest.Header{Name: "b/c/h2", Type: '1', Link: "a/t"}, indextest.Header{Name: "a/t", Body: "T"})
		cs := newStore(t)
		src := imagetest.Put(t, cs, imagetest.Image{Layers: []imagetest.Layer{{Tar: tar.Bytes()}}})
		before := blobs(t, cs)
		_, err := convert.Image(t.Context(), cs, src, convert.Options{})
		if err == nil || !strings.Contains(err.Error(), "b/c/h2") || !strings.Contains(err.Error(), "a/t") {
			t.Fatalf("error is %v, want one that names entry and target", err)
		}
		if after := blobs(t, cs); after != before {
			t.Errorf("content store has %d blobs and ingests, had %d", after, before)
		}
	})
}

func TestCF11_EmptyLayers(t *testing.T) {
	file := func(name string) []byte {
		var tar indextest.Tar
		return tar.Add(indextest.Header{Name: name, Body: name}).Bytes()
	}
	var root, none indextest.Tar
	root.Add(indextest.Header{Name: "./", Type: '5'})
	tars := [][]byte{file("f"), none.Bytes(), root.Bytes(), {}, file("g")}
	cs := newStore(t)
	layers := []imagetest.Layer{{Tar: tars[0]}, {Tar: tars[1]}, {Tar: tars[2]}, {Blob: []byte{}}, {Tar: tars[4]}}
	out, err := convert.Image(t.Context(), cs, imagetest.Put(t, cs, imagetest.Image{Layers: layers}), convert.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sameTree(t, cs, *out, tars...)
	for i, l := range imagetest.Read[ocispec.Manifest](t, cs, *out).Layers[:5] {
		if _, meta, _ := section(t, cs, l); meta.Table.Length() != int64(len(tars[i])) {
			t.Errorf("layer %d: tar stream has %d bytes, want %d", i, meta.Table.Length(), len(tars[i]))
		}
	}
}

func TestCF12_LayerWithoutFiles(t *testing.T) {
	var links indextest.Tar
	links.Add(indextest.Header{Name: "l", Type: '2', Link: "/bin/sh"}, indextest.Header{Name: "e/", Type: '5'})
	tars := [][]byte{tarOf(1, 2, 10), tarOf(2, 2, 10), links.Bytes(), tarOf(3, 2, 10), tarOf(4, 2, 10)}
	cs := newStore(t)
	out := image(t, cs, convert.Options{}, tars...)
	m := imagetest.Read[ocispec.Manifest](t, cs, out)
	config := imagetest.Read[ocispec.Image](t, cs, m.Config)
	// The index layer comes on top of the five.
	if len(m.Layers) != 6 || len(config.RootFS.DiffIDs) != 6 || len(config.History) != 6 {
		t.Fatalf("%d layers, %d diff IDs, %d history entries, want 6 each", len(m.Layers), len(config.RootFS.DiffIDs), len(config.History))
	}
	for i, tar := range tars {
		if config.RootFS.DiffIDs[i] != digest.FromBytes(tar) {
			t.Errorf("diff ID %d is not that of source layer %d", i, i)
		}
	}
	sameTree(t, cs, out, tars...)
}

func TestCF22_BlocksThatDoNotShrink(t *testing.T) {
	r := rand.New(rand.NewPCG(22, 22))
	noise := make([]byte, 512<<10*3+1)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	var tar indextest.Tar
	tar.Add(indextest.Header{Name: "noise", Body: string(noise)}, indextest.Header{Name: "zeros", Body: strings.Repeat("\x00", 512<<10-1)})
	for i := range 10_000 {
		tar.Add(indextest.Header{Name: "one/" + strconv.Itoa(i), Body: string(rune('a' + i%26))})
	}
	for i := range 1_000 {
		tar.Add(indextest.Header{Name: "none/" + strconv.Itoa(i)})
	}
	cs := newStore(t)
	out := image(t, cs, convert.Options{}, tar.Bytes())
	sameTree(t, cs, out, tar.Bytes())
	_, meta, _ := section(t, cs, imagetest.Read[ocispec.Manifest](t, cs, out).Layers[0])
	grown := false
	for i := range meta.Table.Len() {
		_, n := meta.Table.Span(i)
		grown = grown || meta.Table.Ref("", i).Size > n
	}
	if !grown {
		t.Error("no block takes more bytes than it has: the case was not tried")
	}
	for _, size := range []int{4 << 10, 4 << 20} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			cs := newStore(t)
			out := image(t, cs, convert.Options{BlockSize: size}, tar.Bytes())
			l := imagetest.Read[ocispec.Manifest](t, cs, out).Layers[0]
			_, other, _ := section(t, cs, l)
			if other.Table.BlockSize() != size || !bytes.Equal(untar(t, cs, l), tar.Bytes()) || !bytes.Equal(other.Index, meta.Index) {
				t.Error("block size, tar stream or index is wrong")
			}
		})
	}
}

func TestCF24_Compressions(t *testing.T) {
	tar := tarOf(24, 30, 40_000)
	types := []string{
		ocispec.MediaTypeImageLayer, ocispec.MediaTypeImageLayerGzip, ocispec.MediaTypeImageLayerZstd,
		images.MediaTypeDockerSchema2Layer, images.MediaTypeDockerSchema2LayerGzip, images.MediaTypeDockerSchema2LayerZstd,
	}
	var first *ocispec.Descriptor
	for _, mt := range types {
		t.Run(mt, func(t *testing.T) {
			cs := newStore(t)
			src := imagetest.Put(t, cs, imagetest.Image{Layers: []imagetest.Layer{{Tar: tar, MediaType: mt}}})
			out, err := convert.Image(t.Context(), cs, src, convert.Options{})
			if err != nil {
				t.Fatal(err)
			}
			l := imagetest.Read[ocispec.Manifest](t, cs, *out).Layers[0]
			if l.MediaType != ocispec.MediaTypeImageLayerZstd {
				t.Errorf("media type is %s", l.MediaType)
			}
			if first == nil {
				first = &l
				sameTree(t, cs, *out, tar)
			}
			if l.Digest != first.Digest {
				t.Errorf("converted layer is %v, from %s it was %v", l.Digest, types[0], first.Digest)
			}
			if !bytes.Equal(untar(t, cs, l), tar) {
				t.Error("tar stream differs")
			}
		})
	}
}
