package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"testing"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/micro"
	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/cmd/internal/tree/treebench"
	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
)

// part is a Go benchmark whose figure is one row.
type part struct {
	plan microPlan
	unit string
	run  func(*testing.B)
	of   func(testing.BenchmarkResult) float64
}

// parts runs Go benchmarks, each reps times.
func (m *micros) parts(ctx context.Context, parts []part) error {
	testing.Init()
	most := "200ms" // and at least once, which is longer for what is slow
	if m.quick {
		most = "20ms"
	}
	if err := flag.CommandLine.Set("test.benchtime", most); err != nil {
		return err
	}
	for rep := range m.reps {
		for _, p := range parts {
			if m.have(p.plan, rep) {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			r := testing.Benchmark(p.run)
			if r.N == 0 {
				return fmt.Errorf("%v: %w", p.plan, errors.New("the benchmark failed"))
			}
			if err := m.add(microRow{microPlan: p.plan, Rep: rep, Value: p.of(r), Unit: p.unit}); err != nil {
				return err
			}
		}
	}
	return nil
}

// sample returns blocks of image b, or generated ones, which are there at once.
func (m *micros) sample(ctx context.Context) (blocks [][]byte, err error) {
	var layout string
	if m.quick {
		const enough = 16 << 20
		layout, err = micro.Layered{Layers: 1, Blob: enough}.Build(ctx, m.Dir())
	} else {
		layout, err = buildImage(ctx, "b")
	}
	if err != nil {
		return nil, err
	}
	return micro.Sample(layout)
}

// blocks measures blocks of an image.
func (m *micros) blocks(ctx context.Context, _ []string) error {
	sample, err := m.sample(ctx)
	if err != nil {
		return err
	}
	var parts []part
	add := func(system, state string, run func(*testing.B)) {
		parts = append(parts, part{microPlan{Name: "block", System: system, State: state}, "MB/s", run, megabytes})
	}
	for _, level := range []block.Level{block.LevelFastest, block.LevelDefault, block.LevelBetter, block.LevelBest} {
		encode := func(b *testing.B) { b.Helper(); blocktest.BenchmarkEncode(b, level, sample) }
		add(level.String(), "encode", encode)
		parts = append(parts, part{microPlan{Name: "block", System: level.String(), State: "size"}, "of 1", encode,
			func(r testing.BenchmarkResult) float64 { return r.Extra["ratio"] }})
		add(level.String(), "decode", func(b *testing.B) { b.Helper(); blocktest.BenchmarkDecode(b, level, sample) })
	}
	add("sha256", "verify", func(b *testing.B) { b.Helper(); blocktest.BenchmarkVerify(b, sample) })
	return m.parts(ctx, parts)
}

func megabytes(r testing.BenchmarkResult) float64 {
	return float64(r.Bytes) * float64(r.N) / r.T.Seconds() / 1e6
}

// trees measures all forms of the function tree.
func (m *micros) trees(ctx context.Context, _ []string) error {
	sizes := []int{1_000, 10_000, 100_000, 1_000_000}
	if m.quick {
		sizes = sizes[:2]
	}
	var parts []part
	for _, change := range treebench.All() {
		for _, form := range []tree.Form{tree.Striped, tree.Complete, tree.Rotate} {
			for _, size := range sizes {
				parts = append(parts, part{microPlan{Name: "tree", System: string(form), State: change.Name, Size: size}, treebench.Unit,
					func(b *testing.B) { b.Helper(); change.Run(b, form, size) },
					func(r testing.BenchmarkResult) float64 { return r.Extra[treebench.Unit] }})
			}
		}
	}
	return m.parts(ctx, parts)
}
