package convert_test

import (
	"bytes"
	"testing"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/convert"
	"github.com/faasnet/faasnet/convert/imagetest"
	"github.com/faasnet/faasnet/fs/index"
)

func TestImage(t *testing.T) {
	cs := newStore(t)
	tars := [][]byte{tarOf(1, 40, 50_000), tarOf(2, 3, 10), tarOf(3, 1, 700_000)}
	src := imagetest.Put(t, cs, imagetest.Image{Layers: []imagetest.Layer{{Tar: tars[0]}, {Tar: tars[1]}, {Tar: tars[2]}}})
	out, err := convert.Image(t.Context(), cs, src, convert.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if out.Platform == nil || !platforms.OnlyStrict(*src.Platform).Match(*out.Platform) {
		t.Errorf("platform is %v, want %v", out.Platform, src.Platform)
	}
	m := imagetest.Read[ocispec.Manifest](t, cs, *out)
	config := imagetest.Read[ocispec.Image](t, cs, m.Config)
	if len(m.Layers) != 4 || len(config.RootFS.DiffIDs) != 4 || len(config.History) != 4 {
		t.Fatalf("%d layers, %d diff IDs, %d history entries, want 4 each", len(m.Layers), len(config.RootFS.DiffIDs), len(config.History))
	}
	for i, tar := range tars {
		if got := untar(t, cs, m.Layers[i]); !bytes.Equal(got, tar) {
			t.Errorf("layer %d: its tar stream is not the source's", i)
		}
		if got := config.RootFS.DiffIDs[i]; got != digest.FromBytes(tar) {
			t.Errorf("layer %d: diff ID is %v", i, got)
		}
		_, meta, img := section(t, cs, m.Layers[i])
		if img != nil {
			t.Errorf("layer %d has an image section", i)
		}
		if err := index.Check(meta.Index, []int64{int64(len(tar))}); err != nil {
			t.Errorf("layer %d: %v", i, err)
		}
	}
	if got := untar(t, cs, m.Layers[3]); digest.FromBytes(got) != config.RootFS.DiffIDs[3] {
		t.Errorf("index layer: its tar stream does not have the diff ID")
	}
	_, _, img := section(t, cs, m.Layers[3])
	if img == nil || len(img.Layers) != 3 {
		t.Fatalf("image section: %+v", img)
	}
	var devices []int64
	for i, l := range img.Layers {
		if l.Digest != m.Layers[i].Digest || l.Size != m.Layers[i].Size || l.DiffID != config.RootFS.DiffIDs[i] {
			t.Errorf("image section: layer %d is %+v", i, l)
		}
		devices = append(devices, l.Table.Length())
	}
	tree, err := index.Decode(img.Index, devices)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"d1/f39", "d2/f2", "d3/f0"} {
		if _, err := tree.Lookup(name); err != nil {
			t.Errorf("image index: %v", err)
		}
	}
}
