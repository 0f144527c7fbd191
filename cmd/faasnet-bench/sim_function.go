package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/rivals"
	"github.com/faasnet/faasnet/cmd/internal/sim"
)

// functionReps is how many starts a constant is the median of.
const functionReps = 3

// measureFunction starts the function of an image on single VMs whose links are
// not shaped, with our daemon and from an unpacked image.
func measureFunction(ctx context.Context, image string, costs sim.Costs) (f function, err error) {
	s := site{image: image, progress: os.Stderr, recorded: true}
	if s.bench, err = newBench(ctx); err != nil {
		return f, err
	}
	defer s.close(&err)
	if err := s.prepare(ctx, ""); err != nil {
		return f, err
	}
	const recorded = converted + rivals.Recorded
	all := map[string][]stages{}
	for rep := range functionReps {
		for _, tag := range []string{converted, recorded, original} {
			t, err := s.stages(ctx, fmt.Sprintf("sim%d-%s", rep, tag), tag)
			if err != nil {
				return f, err
			}
			all[tag] = append(all[tag], t)
		}
	}
	layers, err := countLayers(ctx, image)
	if err != nil {
		return f, err
	}
	f = functionOf(all[converted], all[original], layers, costs)
	f.record(all[recorded])
	return f, nil
}

// countLayers is how many layers a test image has.
func countLayers(ctx context.Context, image string) (int, error) {
	layout, err := buildImage(ctx, image)
	if err != nil {
		return 0, err
	}
	var index ocispec.Index
	if err := readJSON(filepath.Join(layout, ocispec.ImageIndexFile), &index); err != nil {
		return 0, err
	}
	var m ocispec.Manifest
	d := index.Manifests[0].Digest
	err = readJSON(filepath.Join(layout, ocispec.ImageBlobsDir, d.Algorithm().String(), d.Encoded()), &m)
	return len(m.Layers), err
}

func readJSON(file string, to any) error {
	p, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(p, to); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// record takes what recorded starts read. Its section is fetched in the midst of
// blocks, so it is taken to be as long as that of the plain conversion.
func (f *function) record(starts []stages) {
	f.Recorded = f.Image
	f.Recorded.Blocks = int(median(column(starts, func(s stages) int64 { return int64(s.blocks) })))
	bytes := median(column(starts, func(s stages) int64 { return s.bytes[2] })) - f.Image.Section
	f.Recorded.Block = bytes / int64(max(1, f.Recorded.Blocks))
}

// functionOf takes medians.
func functionOf(ours, floor []stages, layers int, costs sim.Costs) (f function) {
	phase := func(all []stages, i int) sim.Phase {
		return sim.Phase{
			Wall: median(column(all, func(s stages) float64 { return s.stage(i, s.at).Seconds() })),
			CPU:  median(column(all, func(s stages) float64 { return s.stage(i, s.cpu).Seconds() })),
		}
	}
	bytes := median(column(ours, func(s stages) int64 { return s.bytes[2] - s.bytes[1] }))
	f.Reps = len(ours)
	f.Image = sim.Image{
		Layers: layers, Bytes: median(column(floor, func(s stages) int64 { return s.full })),
		Section: median(column(ours, func(s stages) int64 { return s.bytes[1] })),
		Blocks:  int(median(column(ours, func(s stages) int64 { return int64(s.blocks) }))),
	}
	f.Image.Block = bytes / int64(max(1, f.Image.Blocks))
	f.Ours = sim.Start{Pull: phase(ours, 0), Create: phase(ours, 1), Run: phase(floor, 2)}
	run := phase(ours, 2).CPU
	f.Ours.Serve = max(0, run-f.Ours.Run.CPU-float64(bytes)*costs.Receive-float64(f.Image.Blocks)*costs.Decode*sim.BlockSize)
	f.Floor = sim.Start{Create: phase(floor, 1), Run: phase(floor, 2)}
	f.Floor.Unpack = max(0, median(column(floor, func(s stages) float64 { return s.pulled.Seconds() }))-float64(f.Image.Bytes)*costs.Receive)
	f.Serve = median(column(ours, func(s stages) float64 { return s.origin.Seconds() / float64(cmp.Or(s.bytes[2], 1)) }))
	return f
}
