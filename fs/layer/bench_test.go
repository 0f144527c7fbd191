package layer

import (
	"io"
	"testing"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
)

// BenchmarkWriter counts the compressed bytes of a layer of 32 blocks, frames
// given.
func BenchmarkWriter(b *testing.B) {
	l := blocktest.Cut(blocktest.Random(1, 32*block.DefaultSize), block.DefaultSize)
	b.SetBytes(int64(len(l.Blob)))
	for b.Loop() {
		w := NewWriter(io.Discard, block.DefaultSize)
		for i := range l.Table.Len() {
			if err := w.WriteBlock(l.Frame(i), len(l.Block(i))); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := w.Close(Sections{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkParseImage counts the decoded bytes of an image section of 5 MB of
// index over 29 layers of 64 blocks.
func BenchmarkParseImage(b *testing.B) {
	img := &Image{Index: blocktest.Text(1, 5<<20)}
	for i := range 29 {
		img.Layers = append(img.Layers, write(b, blocktest.Text(uint64(i), 64*block.MinSize), block.MinSize, Sections{}).entry())
	}
	m := write(b, nil, block.DefaultSize, Sections{Image: img})
	p := m.section(b, *m.info.Image)
	b.SetBytes(int64(len(img.Index)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseImage(p); err != nil {
			b.Fatal(err)
		}
	}
}
