package blocktest

import (
	"crypto/sha256"
	"testing"

	"github.com/faasnet/faasnet/fs/block"
)

// BenchmarkEncode encodes blocks, none larger than block.DefaultSize, in turn.
// Bytes are uncompressed ones; "ratio" is of compressed ones to them.
func BenchmarkEncode(b *testing.B, level block.Level, blocks [][]byte) {
	enc := encoder(b, level)
	dst := make([]byte, 0, 2*block.DefaultSize)
	var packed int
	b.SetBytes(total(blocks))
	b.ReportAllocs()
	for b.Loop() {
		packed = 0
		for _, p := range blocks {
			dst = enc.Encode(dst[:0], p)
			packed += len(dst)
		}
	}
	b.ReportMetric(float64(packed)/float64(total(blocks)), "ratio")
}

// BenchmarkDecode decodes blocks that were encoded at a level. Bytes are
// uncompressed ones.
func BenchmarkDecode(b *testing.B, level block.Level, blocks [][]byte) {
	frames := encoded(b, level, blocks)
	dec := block.NewDecoder()
	dst := make([]byte, 0, block.DefaultSize)
	b.SetBytes(total(blocks))
	b.ReportAllocs()
	for b.Loop() {
		for i, f := range frames {
			if _, err := dec.Decode(dst, f, len(blocks[i])); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkVerify verifies blocks. Bytes are compressed ones, which is what is
// verified.
func BenchmarkVerify(b *testing.B, blocks [][]byte) {
	frames := encoded(b, block.LevelDefault, blocks)
	refs := make([]block.Ref, len(frames))
	for i, f := range frames {
		refs[i] = block.Ref{Size: len(f), Sum: sha256.Sum256(f)}
	}
	b.SetBytes(total(frames))
	b.ReportAllocs()
	for b.Loop() {
		for i, f := range frames {
			if err := refs[i].Verify(f); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func encoder(b *testing.B, level block.Level) *block.Encoder {
	b.Helper()
	enc, err := block.NewEncoder(level, block.DefaultSize)
	if err != nil {
		b.Fatal(err)
	}
	return enc
}

func encoded(b *testing.B, level block.Level, blocks [][]byte) (frames [][]byte) {
	b.Helper()
	enc := encoder(b, level)
	for _, p := range blocks {
		frames = append(frames, enc.Encode(nil, p))
	}
	return frames
}

func total(blocks [][]byte) (n int64) {
	for _, p := range blocks {
		n += int64(len(p))
	}
	return n
}
