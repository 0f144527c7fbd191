package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/cmd/internal/sim"
)

func TestFunctionOfStages(t *testing.T) {
	ours := stages{cpu: [3]time.Duration{1e9, 2e9, 5e9}, at: [3]time.Duration{2e9, 3e9, 7e9}, bytes: [3]int64{10, 1000, 101000}, blocks: 10}
	floor := stages{cpu: [3]time.Duration{0, 1e9, 3e9}, at: [3]time.Duration{0, 1e9, 4e9}, full: 1e6, pulled: 4e9}
	f := functionOf([]stages{ours}, []stages{floor}, 7, sim.Costs{Receive: 1e-6, Decode: 1e-8})
	if f.Image.Layers != 7 || f.Image.Block != 10000 || f.Image.Section != 1000 || f.Image.Bytes != 1e6 {
		t.Errorf("image %+v", f.Image)
	}
	if f.Ours.Pull != (sim.Phase{Wall: 2, CPU: 1}) || f.Ours.Create != (sim.Phase{Wall: 1, CPU: 1}) || f.Ours.Run != (sim.Phase{Wall: 3, CPU: 2}) {
		t.Errorf("ours %+v", f.Ours)
	}
	// 3 CPU seconds from the making to READY, 2 of the function, 0.1 of bytes, 0.05 of decoding
	if want := 1 - 0.1 - 10*sim.BlockSize*1e-8; f.Ours.Serve < want-1e-6 || f.Ours.Serve > want+1e-6 {
		t.Errorf("our part %f, want %f", f.Ours.Serve, want)
	}
	if f.Floor.Unpack != 3 {
		t.Errorf("unpacking %f, want 3", f.Floor.Unpack)
	}
}

func TestBackToNormal(t *testing.T) {
	shape := traceShape{handle: 2, burst: 60}
	r := traceRow{Parts: []sim.Minute{
		{At: 30, Mean: 5, Max: 9}, {At: 60, Mean: 2, Max: 2}, {At: 65, Mean: 6, Max: 8}, {At: 70, Mean: 2.1, Max: 4}, {At: 75, Mean: 2.05, Max: 2.1},
	}}
	if r.judge(shape); r.Normal != 10 || r.Response != 9 {
		t.Errorf("back to normal after %v s, longest response %v s", r.Normal, r.Response)
	}
}

// A recorded conversion of a test image reads what was measured, and one of another
// image as much less as that does.
func TestRecordedImages(t *testing.T) {
	f := function{Image: sim.Image{Layers: 7, Section: 1000, Blocks: 40, Block: 50}}
	f.record([]stages{{bytes: [3]int64{0, 9, 2000}, blocks: 20}, {bytes: [3]int64{0, 9, 2000}, blocks: 20}})
	if want := (sim.Image{Layers: 7, Section: 1000, Blocks: 20, Block: 50}); f.Recorded != want {
		t.Errorf("measured %+v, want %+v", f.Recorded, want)
	}
	if got := recorded(reads(f.Image, "b"), f); got != f.Recorded {
		t.Errorf("the image itself: %+v", got)
	}
	other := sim.Image{Layers: 29, Blocks: 200, Block: 512, Run: 4}
	if got, want := recorded(other, f), (sim.Image{Layers: 29, Blocks: 100, Block: 512, Run: 4}); got != want {
		t.Errorf("another one: %+v, want %+v", got, want)
	}
}

// Only systems of ours have recorded conversions, and factors are between like ones.
func TestRecordedSystems(t *testing.T) {
	var got []string
	var printed strings.Builder
	app := &cli.App{Flags: simFlags(), Writer: &printed, Action: func(c *cli.Context) error {
		ways, err := waysOf(c, []string{"faasnet", "faasnet-notree", "overlayfs"})
		var rows []simRow
		for i, y := range ways {
			r := simRow{System: y.system, Stripes: 2, VMs: 8, Recorded: y.recorded, Median: float64(i + 1)}
			got, rows = append(got, r.name()), append(rows, r)
		}
		printFactors(c, rows)
		return err
	}}
	if err := app.Run([]string{"bench", "--recorded"}); err != nil {
		t.Fatal(err)
	}
	if want := []string{sim.Tree, sim.Tree + ", recorded", sim.NoTree, sim.NoTree + ", recorded", sim.FullPull}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	const want = `8 VMs: faasnet-notree / faasnet = 3.0
8 VMs: overlayfs / faasnet = 5.0
8 VMs: faasnet-notree, recorded / faasnet, recorded = 2.0
8 VMs: overlayfs / faasnet, recorded = 2.5
`
	if printed.String() != want {
		t.Errorf("got\n%swant\n%s", printed.String(), want)
	}
}

func TestSystemsOf(t *testing.T) {
	if _, err := systemsOf([]string{"faasnet", "nobody"}); err == nil {
		t.Error("an unknown system is taken")
	}
	got, err := systemsOf([]string{"overlayfs"})
	if err != nil || len(got) != 1 || got[0].system != sim.FullPull {
		t.Errorf("%v, %v", got, err)
	}
}
