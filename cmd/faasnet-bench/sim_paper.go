package main

import (
	"github.com/faasnet/faasnet/cmd/internal/sim"
)

// The paper's images, as if their blocks did not compress: what a start reads is
// 16.1 % of the bytes (Fig. 20), in blocks of 512 KiB.
var paperImages = map[string]sim.Image{
	"paper":     paperImage(758e6, 29),
	"paper-428": paperImage(428e6, 29),
}

func paperImage(bytes int64, layers int) sim.Image {
	const read = 0.161
	return sim.Image{Layers: layers, Bytes: bytes, Blocks: int(float64(bytes) * read / sim.BlockSize), Block: sim.BlockSize, Run: 4}
}

// paperAt128 is by how much the paper's FaaSNet is faster than others at 128
// concurrent starts, and paperBaseline what its baseline takes there, in seconds.
var paperAt128 = map[string]float64{sim.FullPull: 13.4, sim.NoTree: 5}

const paperBaseline = 83.3
