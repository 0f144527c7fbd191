package layer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/containerd/containerd/v2/pkg/archive/compression"
	"github.com/containerd/errdefs"
	"github.com/klauspost/compress/zstd"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
)

// checkDecoders holds the blob against every decoder that clients have: each
// must give exactly the tar stream.
func checkDecoders(t *testing.T, m made) {
	t.Helper()
	if got := pipe(t, m.blob, "zstd", "-dc"); !bytes.Equal(got, m.stream) {
		t.Errorf("zstd -d gives %d bytes that are not the %d of the stream", len(got), len(m.stream))
	}
	z, err := zstd.NewReader(bytes.NewReader(m.blob), zstd.WithDecoderMaxWindow(block.MaxSize))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	if got, err := io.ReadAll(z); err != nil || !bytes.Equal(got, m.stream) {
		t.Errorf("a streaming decoder gives %d bytes and %v, want %d", len(got), err, len(m.stream))
	}
	got, err := z.DecodeAll(m.blob, make([]byte, 0, len(m.stream)))
	if err != nil || !bytes.Equal(got, m.stream) {
		t.Errorf("DecodeAll gives %d bytes and %v, want %d", len(got), err, len(m.stream))
	}
	c, err := compression.DecompressStream(bytes.NewReader(m.blob))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, m.stream) || c.GetCompression() != compression.Zstd {
		t.Errorf("containerd gives %d bytes and %v, compression %d; want %d", len(got), err, c.GetCompression(), len(m.stream))
	}
}

// checkFormat holds everything that the blob says against what went in.
func checkFormat(t *testing.T, m made) {
	t.Helper()
	meta, err := ParseMeta(m.section(t, m.info.Meta))
	if err != nil {
		t.Fatal(err)
	}
	sameTable(t, meta.Table, m.table)
	if !bytes.Equal(meta.Index, m.sections.Index) {
		t.Errorf("index of %d bytes, want %d", len(meta.Index), len(m.sections.Index))
	}
	if err := m.info.CheckTable(meta.Table); err != nil {
		t.Error(err)
	}
	dec := block.NewDecoder()
	var all []byte
	for i := range meta.Table.Len() {
		ref := meta.Table.Ref(m.info.Digest, i)
		frame := m.blob[ref.Offset:][:ref.Size]
		if err := ref.Verify(frame); err != nil {
			t.Error(err)
		}
		_, n := meta.Table.Span(i)
		if all, err = dec.Decode(all, frame, n); err != nil {
			t.Error(err)
		}
	}
	if !bytes.Equal(all, m.stream) {
		t.Error("blocks do not give the stream")
	}
	back, err := FromLabels(m.info.Annotations())
	if err != nil || !reflect.DeepEqual(back, m.info) {
		t.Errorf("annotations give %+v (%v), want %+v", back, err, m.info)
	}
	frames, err := ReadSeekTable(bytes.NewReader(m.blob), m.info.Size)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.info.CheckSeekTable(frames, meta.Table); err != nil {
		t.Error(err)
	}
	found, err := Find(bytes.NewReader(m.blob), m.info.Size, m.info.Digest)
	if err != nil || !reflect.DeepEqual(found, m.info) {
		t.Errorf("Find gives %+v (%v), want %+v", found, err, m.info)
	}
}

func TestCF22_LayerOfBlocksThatDoNotShrink(t *testing.T) {
	small := make([]byte, 10_000*1024) // 10,000 files of 1 byte: a header and a padded byte each
	for i := range 10_000 {
		copy(small[i*1024:], fmt.Sprintf("file%d", i))
		small[i*1024+512] = byte(i)
	}
	for _, size := range []int{block.MinSize, block.DefaultSize, block.MaxSize} {
		for name, stream := range map[string][]byte{
			"3 blocks and a byte of random": blocktest.Random(1, 3*size+1),
			"a block less one of zeros":     make([]byte, size-1),
			"10,000 files of a byte":        small,
			"1,000 files of nothing":        small[:1000*512],
			"empty":                         {},
		} {
			t.Run(fmt.Sprintf("CF-22 %d %s", size, name), func(t *testing.T) {
				m := write(t, stream, size, Sections{Index: blocktest.Text(1, 3000)})
				checkDecoders(t, m)
				checkFormat(t, m)
			})
		}
	}
}

// TestRoundTrip is a property test over random streams and block sizes.
func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 40 {
		size := block.MinSize << r.IntN(5)
		stream := blocktest.NewLayer(r.Uint64(), size, r.IntN(6*size)).Stream
		s := Sections{Index: blocktest.Random(r.Uint64(), r.IntN(3000))}
		m := write(t, stream, size, s)
		checkFormat(t, m)
		if again := write(t, stream, size, s); !bytes.Equal(again.blob, m.blob) {
			t.Errorf("layer %d: same input, other bytes", i)
		}
	}
}

func TestImageSection(t *testing.T) {
	m := writeImage(t)
	checkDecoders(t, m)
	checkFormat(t, m)
	got, err := ParseImage(m.section(t, *m.info.Image))
	if err != nil {
		t.Fatal(err)
	}
	want := m.sections.Image
	if !bytes.Equal(got.Index, want.Index) || len(got.Layers) != len(want.Layers) {
		t.Fatalf("index of %d bytes over %d layers, want %d over %d", len(got.Index), len(got.Layers), len(want.Index), len(want.Layers))
	}
	for i, l := range got.Layers {
		w := want.Layers[i]
		sameTable(t, l.Table, w.Table)
		if l.Digest != w.Digest || l.Size != w.Size || l.DiffID != w.DiffID || got.DiffIDs()[i] != w.DiffID {
			t.Errorf("layer %d: got %+v, want %+v", i, l, w)
		}
	}
}

func TestWriterRefuses(t *testing.T) {
	frame := []byte(block.EmptyFrame) // the Writer does not decode frames
	for name, c := range map[string]struct {
		frame []byte
		sizes []int
	}{
		"block of nothing":         {frame, []int{0}},
		"negative size":            {frame, []int{-1}},
		"block larger than size":   {frame, []int{block.MinSize + 1}},
		"block after a short one":  {frame, []int{block.MinSize, 9, 9}},
		"empty frame":              {nil, []int{9}},
		"frame larger than it may": {make([]byte, block.MaxFrame(9)+1), []int{9}},
	} {
		w := NewWriter(io.Discard, block.MinSize)
		var err error
		for _, n := range c.sizes {
			err = w.WriteBlock(c.frame, n)
		}
		if !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: got %v, want ErrInvalidArgument", name, err)
		}
	}
}

func TestCloseRefuses(t *testing.T) {
	good := writeImage(t).sections.Image
	with := func(change func(*ImageLayer)) *Image {
		l := good.Layers[1]
		change(&l)
		return &Image{Layers: []ImageLayer{good.Layers[0], l}}
	}
	for name, c := range map[string]struct {
		blockSize int
		s         Sections
	}{
		"block size":            {block.MinSize + 1, Sections{}},
		"too many layers":       {block.MinSize, Sections{Image: &Image{Layers: make([]ImageLayer, MaxLayers+1)}}},
		"digest not a sha256":   {block.MinSize, Sections{Image: with(func(l *ImageLayer) { l.Digest = "sha512:00" })}},
		"no diff ID":            {block.MinSize, Sections{Image: with(func(l *ImageLayer) { l.DiffID = "" })}},
		"layer without bytes":   {block.MinSize, Sections{Image: with(func(l *ImageLayer) { l.Size = 0 })}},
		"blocks behind a layer": {block.MinSize, Sections{Image: with(func(l *ImageLayer) { l.Size = l.Table.Bytes() - 1 })}},
		"no table":              {block.MinSize, Sections{Image: with(func(l *ImageLayer) { l.Table = nil })}},
		"section too large":     {block.MinSize, Sections{Index: blocktest.Random(1, block.MaxSection)}},
	} {
		if _, err := NewWriter(io.Discard, c.blockSize).Close(c.s); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: got %v, want ErrInvalidArgument", name, err)
		}
	}
	w := NewWriter(io.Discard, block.MinSize)
	if _, err := w.Close(Sections{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(Sections{}); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("second Close: got %v, want ErrFailedPrecondition", err)
	}
	if err := w.WriteBlock([]byte(block.EmptyFrame), 1); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("WriteBlock after Close: got %v, want ErrFailedPrecondition", err)
	}
}

// full fails after n bytes.
type full struct{ n int }

var errFull = errors.New("disk full")

func (f *full) Write(p []byte) (int, error) {
	if len(p) > f.n {
		return f.n, errFull
	}
	f.n -= len(p)
	return len(p), nil
}

// TestWriterPassesErrorsOn fails the underlying writer at every 37th byte.
func TestWriterPassesErrorsOn(t *testing.T) {
	m := writeImage(t)
	for n := 0; n < len(m.blob); n += 37 {
		if _, err := NewWriter(&full{n}, block.DefaultSize).Close(m.sections); !errors.Is(err, errFull) {
			t.Fatalf("after %d bytes: got %v, want the writer's error", n, err)
		}
	}
}
