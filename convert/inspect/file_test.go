package inspect_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/convert/imagetest"
	"github.com/faasnet/faasnet/convert/inspect"
	"github.com/faasnet/faasnet/fs/block"
)

// counting counts the bytes that are read.
type counting struct {
	block.Source
	bytes int
}

func (c *counting) ReadBlock(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
	c.bytes += ref.Size
	return c.Source.ReadBlock(ctx, ref, dst)
}

func TestReader(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	noise := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return string(b)
	}
	want := map[string]string{
		"empty": "", "byte": "1", "block": noise(blockSize), "blocks": noise(3*blockSize + 100), "large": noise(100 * blockSize), "last": noise(10),
	}
	var tar []string
	for _, name := range []string{"empty", "byte", "block", "blocks", "large", "last"} {
		tar = append(tar, name, want[name])
	}
	cs, d := converted(t, files(tar...), files("top", "T"))
	img, err := inspect.Open(t.Context(), cs, ranges{cs}, d)
	if err != nil {
		t.Fatal(err)
	}
	if img.Section == nil || len(img.Layers) != 3 || img.Layers[0].Info == nil {
		t.Fatalf("image is %+v", img)
	}
	tree, devices, err := img.Tree()
	if err != nil {
		t.Fatal(err)
	}
	src := &counting{Source: ranges{cs}}
	for name, body := range want {
		f, err := tree.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		src.bytes = 0
		if err := inspect.NewReader(src, devices).Copy(t.Context(), &got, f); err != nil {
			t.Fatal(err)
		}
		if got.String() != body {
			t.Errorf("%s: %d bytes, want %d, or other ones", name, got.Len(), len(body))
		}
		if most := len(body) + 2*block.MaxFrame(blockSize) + len(body)/50; src.bytes > most {
			t.Errorf("%s: read %d bytes of the layer, want at most %d", name, src.bytes, most)
		}
	}
	dir, err := tree.Lookup(".")
	if err != nil {
		t.Fatal(err)
	}
	if err := inspect.NewReader(src, devices).Copy(t.Context(), &bytes.Buffer{}, dir); !errdefs.IsInvalidArgument(err) {
		t.Errorf("reading a directory: %v", err)
	}
	m := imagetest.Read[ocispec.Manifest](t, cs, d)
	bad := ranges{damaged{cs, m.Layers[0].Digest, func(b []byte) []byte { b[1] ^= 1; return b }}}
	f, err := tree.Lookup("byte")
	if err != nil {
		t.Fatal(err)
	}
	if err := inspect.NewReader(bad, devices).Copy(t.Context(), &bytes.Buffer{}, f); !errdefs.IsDataLoss(err) {
		t.Errorf("reading a damaged block: %v", err)
	}
	if _, _, err := img.LayerTree(7); !errdefs.IsNotFound(err) {
		t.Errorf("layer 7: %v", err)
	}
}

// Without the index layer the trees of the layers are merged.
func TestTreeWithoutIndexLayer(t *testing.T) {
	cs, d := converted(t, files("a", "A", "gone", "G"), files("b", "B", ".wh.gone", ""))
	d = rewrite(t, cs, d, func(m *ocispec.Manifest, c *ocispec.Image) {
		m.Layers, c.RootFS.DiffIDs = m.Layers[:2], c.RootFS.DiffIDs[:2]
	})
	img, err := inspect.Open(t.Context(), cs, ranges{cs}, d)
	if err != nil {
		t.Fatal(err)
	}
	tree, devices, err := img.Tree()
	if err != nil || len(devices) != 2 {
		t.Fatalf("%d devices, %v", len(devices), err)
	}
	if _, err := tree.Lookup("gone"); !errdefs.IsNotFound(err) {
		t.Errorf("deleted file: %v", err)
	}
	f, err := tree.Lookup("b")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if err := inspect.NewReader(ranges{cs}, devices).Copy(t.Context(), &got, f); err != nil || got.String() != "B" {
		t.Errorf("b has %q, %v", got.String(), err)
	}
}

func TestBlob(t *testing.T) {
	cs, d := converted(t, files("a", strings.Repeat("A", 10_000)), files(), []byte{})
	for i, want := range imagetest.Read[ocispec.Manifest](t, cs, d).Layers {
		b, err := content.ReadBlob(t.Context(), cs, want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := inspect.Blob(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range got.Annotations {
			if want.Annotations[k] != v {
				t.Errorf("layer %d: %s is %q, want %q", i, k, v, want.Annotations[k])
			}
		}
		img, err := inspect.OpenBlob(bytes.NewReader(b), got)
		if err != nil {
			t.Fatal(err)
		}
		if (img.Section != nil) != (i == 3) {
			t.Errorf("layer %d: image section is %v", i, img.Section)
		}
	}
	for _, b := range [][]byte{nil, files("a", "A"), imagetest.Compress(t, ocispec.MediaTypeImageLayerZstd, files("a", "A"))} {
		if _, err := inspect.Blob(bytes.NewReader(b), int64(len(b))); !errdefs.IsNotFound(err) {
			t.Errorf("a file of %d bytes that is no converted layer: %v", len(b), err)
		}
	}
}

func TestManifests(t *testing.T) {
	cs, d := converted(t, files("a", "A"))
	d.Platform = &ocispec.Platform{OS: "linux", Architecture: "amd64"}
	attestation := d
	attestation.Annotations = map[string]string{"vnd.docker.reference.type": "attestation-manifest"}
	other := imagetest.Put(t, cs, imagetest.Image{Platform: platforms.MustParse("linux/s390x"), Layers: []imagetest.Layer{{Tar: files("s", "")}}})
	idx := imagetest.Index(t, cs, ocispec.MediaTypeImageIndex, imagetest.Index(t, cs, ocispec.MediaTypeImageIndex, d), attestation, other)
	for platform, n := range map[string]int{"linux/amd64": 1, "linux/s390x": 1, "linux/arm64": 0} {
		ms, err := inspect.Manifests(t.Context(), cs, idx, platforms.OnlyStrict(platforms.MustParse(platform)))
		if err != nil || len(ms) != n {
			t.Errorf("%s: %d manifests, %v, want %d", platform, len(ms), err, n)
		}
	}
	if _, err := inspect.Manifests(t.Context(), cs, imagetest.Read[ocispec.Manifest](t, cs, d).Config, platforms.All); !errdefs.IsInvalidArgument(err) {
		t.Errorf("a config: %v", err)
	}
}
