package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/cmd/internal/sim"
)

// functionReps is how many starts a constant is the median of.
const functionReps = 3

// measureFunction starts the function of an image on single VMs whose links are
// not shaped, with our daemon and from an unpacked image.
func measureFunction(ctx context.Context, image string, costs sim.Costs) (f function, err error) {
	s := site{image: image, progress: os.Stderr}
	if s.bench, err = newBench(ctx); err != nil {
		return f, err
	}
	defer s.close(&err)
	if err := s.prepare(ctx, ""); err != nil {
		return f, err
	}
	var ours, floor []stages
	for rep := range functionReps {
		for _, daemon := range []bool{true, false} {
			t, err := s.stages(ctx, fmt.Sprintf("sim%d-%v", rep, daemon), daemon)
			if err != nil {
				return f, err
			}
			if daemon {
				ours = append(ours, t)
			} else {
				floor = append(floor, t)
			}
		}
	}
	layers, err := countLayers(ctx, image)
	if err != nil {
		return f, err
	}
	return functionOf(ours, floor, layers, costs), nil
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
