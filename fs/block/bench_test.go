package block_test

import (
	"testing"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
)

// benchBlocks compress as the content of images does: to a third or not at all.
func benchBlocks() [][]byte {
	l := blocktest.NewLayer(1, block.DefaultSize, 4*block.DefaultSize)
	var blocks [][]byte
	for i := range l.Table.Len() {
		blocks = append(blocks, l.Block(i))
	}
	return blocks
}

func BenchmarkEncode(b *testing.B) {
	for _, level := range allLevels {
		b.Run(level.String(), func(b *testing.B) { blocktest.BenchmarkEncode(b, level, benchBlocks()) })
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, level := range allLevels {
		b.Run(level.String(), func(b *testing.B) { blocktest.BenchmarkDecode(b, level, benchBlocks()) })
	}
}

func BenchmarkVerify(b *testing.B) { blocktest.BenchmarkVerify(b, benchBlocks()) }
