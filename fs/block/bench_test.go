package block_test

import (
	"testing"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
)

func BenchmarkEncode(b *testing.B) {
	p := blocktest.NewLayer(1, 16<<10, block.DefaultSize).Stream
	for _, level := range allLevels {
		b.Run(level.String(), func(b *testing.B) {
			enc := newEncoder(b, level, block.DefaultSize)
			dst := enc.Encode(nil, p)
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			for b.Loop() {
				dst = enc.Encode(dst[:0], p)
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	p := blocktest.NewLayer(1, 16<<10, block.DefaultSize).Stream
	frame := newEncoder(b, block.LevelDefault, block.DefaultSize).Encode(nil, p)
	dec := block.NewDecoder()
	dst := make([]byte, 0, len(p))
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := dec.Decode(dst, frame, len(p)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkVerify counts compressed bytes.
func BenchmarkVerify(b *testing.B) {
	l := blocktest.Cut(blocktest.Random(1, block.DefaultSize), block.DefaultSize)
	ref, frame := l.Ref(0), l.Frame(0)
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	for b.Loop() {
		if err := ref.Verify(frame); err != nil {
			b.Fatal(err)
		}
	}
}
