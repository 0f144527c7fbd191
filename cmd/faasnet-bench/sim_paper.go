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

// patterns are how the functions of test images read: that of c goes through three
// layers, that of b imports files here and there.
var patterns = map[string]struct{ run, spread int }{"b": {run: 4}, "c": {spread: 3}}

// reads returns the image with the pattern of a test image.
func reads(i sim.Image, name string) sim.Image {
	i.Run, i.Spread = patterns[name].run, patterns[name].spread
	return i
}

// recorded is an image that the function f, or one like it, is in, as a recorded
// conversion: as much less is read of it as was measured.
func recorded(i sim.Image, f function) sim.Image {
	if i.Blocks == f.Image.Blocks && i.Block == f.Image.Block {
		return f.Recorded
	}
	less := float64(f.Recorded.Block*int64(f.Recorded.Blocks)) / float64(f.Image.Block*int64(f.Image.Blocks))
	i.Blocks = int(float64(i.Blocks) * less)
	return i
}

// paperAt128 is by how much the paper's FaaSNet is faster than others at 128
// concurrent starts, and paperBaseline what its baseline takes there, in seconds.
var paperAt128 = map[string]float64{sim.FullPull: 13.4, sim.NoTree: 5}

const paperBaseline = 83.3
