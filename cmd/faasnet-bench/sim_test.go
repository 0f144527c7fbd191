package main

import (
	"testing"
	"time"

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

func TestSystemsOf(t *testing.T) {
	if _, err := systemsOf([]string{"faasnet", "nobody"}); err == nil {
		t.Error("an unknown system is taken")
	}
	got, err := systemsOf([]string{"overlayfs"})
	if err != nil || len(got) != 1 || got[0].system != sim.FullPull {
		t.Errorf("%v, %v", got, err)
	}
}
