package inspect_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"go.uber.org/goleak"

	"github.com/faasnet/faasnet/convert"
	"github.com/faasnet/faasnet/convert/endpoint"
	"github.com/faasnet/faasnet/convert/imagetest"
	"github.com/faasnet/faasnet/convert/inspect"
	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/index"
	"github.com/faasnet/faasnet/fs/index/indextest"
	"github.com/faasnet/faasnet/fs/layer"
)

const blockSize = 4096

func TestMain(m *testing.M) {
	log.SetLevel("error")
	goleak.VerifyTestMain(m)
}

// files makes a tar stream of files, name and content in turns.
func files(s ...string) []byte {
	var tar indextest.Tar
	for i := 0; i < len(s); i += 2 {
		tar.Add(indextest.Header{Name: s[i], Body: s[i+1]})
	}
	return tar.Bytes()
}

// converted converts an image and gives its store and manifest.
func converted(t *testing.T, tars ...[]byte) (content.Store, ocispec.Descriptor) {
	t.Helper()
	cs, err := endpoint.NewStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var layers []imagetest.Layer
	for _, tar := range tars {
		layers = append(layers, imagetest.Layer{Tar: tar})
	}
	out, err := convert.Image(t.Context(), cs, imagetest.Put(t, cs, imagetest.Image{Layers: layers}), convert.Options{BlockSize: blockSize})
	if err != nil {
		t.Fatal(err)
	}
	return cs, *out
}

// ranges reads blocks from a store.
type ranges struct{ content.Provider }

func (r ranges) ReadBlock(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
	b, err := content.ReadBlob(ctx, r, ocispec.Descriptor{Digest: ref.Blob})
	if err != nil {
		return dst, err
	}
	if ref.Offset+int64(ref.Size) > int64(len(b)) {
		return dst, fmt.Errorf("%v: blob has %d bytes: %w", ref, len(b), errdefs.ErrDataLoss)
	}
	return append(dst, b[ref.Offset:][:ref.Size]...), nil
}

// damaged gives one blob with other bytes than its digest promises.
type damaged struct {
	content.Store
	blob   digest.Digest
	damage func([]byte) []byte
}

func (d damaged) ReaderAt(ctx context.Context, desc ocispec.Descriptor) (content.ReaderAt, error) {
	if desc.Digest != d.blob {
		return d.Store.ReaderAt(ctx, desc)
	}
	b, err := content.ReadBlob(ctx, d.Store, desc)
	return memory{bytes.NewReader(d.damage(b))}, err
}

type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

// rewrite makes another manifest of the one at d.
func rewrite(t *testing.T, cs content.Store, d ocispec.Descriptor, change func(*ocispec.Manifest, *ocispec.Image)) ocispec.Descriptor {
	t.Helper()
	m := imagetest.Read[ocispec.Manifest](t, cs, d)
	config := imagetest.Read[ocispec.Image](t, cs, m.Config)
	change(&m, &config)
	m.Config = imagetest.JSON(t, cs, ocispec.MediaTypeImageConfig, config)
	return imagetest.JSON(t, cs, ocispec.MediaTypeImageManifest, m)
}

// sayAbove makes the layers of a manifest say what is above them.
func sayAbove(t *testing.T, m *ocispec.Manifest) {
	t.Helper()
	top := len(m.Layers) - 1
	info, err := layer.FromLabels(m.Layers[top].Annotations)
	if err != nil {
		t.Fatal(err)
	}
	var start digest.Digest
	if m.Layers[top-1].Annotations[layer.LabelStart] == "true" {
		start = m.Layers[top-1].Digest
	}
	above := layer.AboveOf(info, start)
	for _, l := range m.Layers[:top] {
		if l.Annotations != nil {
			layer.WithAbove(l.Annotations, &above)
		}
	}
}

// lay writes a layer file with these sections, right or wrong.
func lay(t *testing.T, cs content.Store, tar []byte, s layer.Sections) ocispec.Descriptor {
	t.Helper()
	var b bytes.Buffer
	w := layer.NewWriter(&b, blockSize)
	e, err := block.NewEncoder(block.LevelDefault, blockSize)
	if err != nil {
		t.Fatal(err)
	}
	for piece := range slices.Chunk(tar, blockSize) {
		if err := w.WriteBlock(e.Encode(nil, piece), len(piece)); err != nil {
			t.Fatal(err)
		}
	}
	info, err := w.Close(s)
	if err != nil {
		t.Fatal(err)
	}
	d := imagetest.Blob(t, cs, layer.MediaType, b.Bytes())
	d.Annotations = info.Annotations()
	return d
}

// indexOf is the index of tar streams, merged.
func indexOf(t *testing.T, tars ...[]byte) []byte {
	t.Helper()
	var trees []*index.Tree
	var devices []int64
	for _, tar := range tars {
		tree, err := index.FromTar(bytes.NewReader(tar))
		if err != nil {
			t.Fatal(err)
		}
		trees, devices = append(trees, tree), append(devices, int64(len(tar)))
	}
	tree := trees[0]
	if len(trees) > 1 {
		var err error
		if tree, err = index.Merge(trees, nil); err != nil {
			t.Fatal(err)
		}
	}
	img, err := tree.Encode(devices)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// indexLayer is an index layer like the one of the image at d, but with
// another image index.
func indexLayer(t *testing.T, cs content.Store, d ocispec.Descriptor, img []byte) ocispec.Descriptor {
	t.Helper()
	m, err := inspect.Open(t.Context(), cs, ranges{cs}, d)
	if err != nil {
		t.Fatal(err)
	}
	empty := make([]byte, 1024)
	return lay(t, cs, empty, layer.Sections{Index: indexOf(t, empty), Image: &layer.Image{Layers: m.Section.Layers, Index: img}})
}
