package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/color"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// scaling is a figure with most of what figures have.
func scaling() Figure {
	return Figure{
		Title: "Time to READY by VMs that start at once", Note: "image b, links of 25 Mbit/s, medians of 5",
		X: Axis{Label: "VMs", Log: true, Ticks: []float64{1, 4, 8, 16, 128}}, Y: Axis{Label: "time to READY, s", Log: true},
		Series: []Series{
			{Name: "overlayfs", Points: []Point{At(1, 80), At(4, 240), At(8, 520), At(16, 1100)}},
			{Name: "stargz-nobg", Points: []Point{At(1, 5.8), At(4, 20), At(8, 41), At(16, 78)}},
			{Name: "soci", Points: []Point{At(1, 9), At(4, 26), At(8, 55), At(16, 101)}},
			{Name: "faasnet-notree", Points: []Point{At(1, 4.9), At(4, 15), At(8, 31), At(16, 62)}},
			{Name: "faasnet", Points: []Point{At(1, 5), {X: 4, Y: 5.4, Low: 5, High: 5.9}, At(8, 6.2), At(16, 7.7)}},
			{Name: "floor", Points: []Point{At(1, 1), At(4, 1.9), At(8, 3.7), At(16, 6.1)}},
			{Name: "paper: faasnet", Points: []Point{At(8, 6.1), At(128, 6.2)}},
		},
		Rules: []Rule{{"link", 2}},
	}
}

func bars() Figure {
	return Figure{
		Title: "Bytes until READY by block size", X: Axis{Label: "block size", Names: []string{"64 KiB", "128 KiB", "512 KiB"}}, Y: Axis{Label: "of a full pull, %"},
		Series: []Series{
			{Name: "image b", Kind: Bars, Points: []Point{At(0, 8), At(1, 9.5), {X: 2, Y: 16.2, Low: 15, High: 18}}},
			{Name: "paper", Kind: Bars, Points: []Point{At(2, 16.1)}},
		},
	}
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if keep := os.Getenv("FAASNET_PLOTS"); keep != "" { // to look at
		dir = keep
	}
	figures := map[string]Figure{
		"scaling": scaling(), "bars": bars(), "empty": {Title: "nothing was measured"},
		"cdf": {Title: "Starts", X: Axis{Label: "s"}, Y: Axis{Label: "%", Max: 100}, Series: []Series{
			{Name: "faasnet", Kind: Steps, Points: CDF([]float64{3, 1, 2, 2.5, 1.9})}, {Name: "faasnet: 1 stripe", Kind: Steps, Points: CDF([]float64{4, 2, 3, 1.4})}}},
	}
	for name, f := range figures {
		if err := f.Write(dir, name); err != nil {
			t.Fatal(err)
		}
		svg, err := os.ReadFile(filepath.Join(dir, name+".svg"))
		if err != nil {
			t.Fatal(err)
		}
		d := xml.NewDecoder(bytes.NewReader(svg))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s.svg: %v", name, err)
			}
		}
		texts := []string{f.Title, f.Note, f.X.Label, f.Y.Label}
		for _, s := range f.Series {
			texts = append(texts, s.Name)
		}
		for _, text := range texts {
			if !strings.Contains(string(svg), text) {
				t.Errorf("%s.svg does not say %q", name, text)
			}
		}
		if again, err := f.SVG(); err != nil || !bytes.Equal(again, svg) {
			t.Errorf("%s: a second drawing differs (%v)", name, err)
		}
		file, err := os.Open(filepath.Join(dir, name+".png"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := png.Decode(file); err != nil {
			t.Errorf("%s.png: %v", name, err)
		}
		file.Close()
	}
}

// No point of the data may be painted over by the legend, and each system
// keeps its colour whatever else is drawn.
func TestStyles(t *testing.T) {
	colours := func(names ...string) (all []color.NRGBA) {
		var series []Series
		for _, n := range names {
			series = append(series, Series{Name: n})
		}
		for _, s := range styles(series) {
			all = append(all, s.color)
		}
		return all
	}
	if got := colours("soci", "faasnet"); !slices.Equal(got, []color.NRGBA{green, blue}) {
		t.Errorf("got %v", got)
	}
	if got := colours("pulled", "faasnet", "created", "READY"); slices.Index(got, blue) != 1 || slices.Contains(got[2:], blue) || got[0] == got[2] || got[2] == got[3] {
		t.Errorf("series beside ours: %v", got)
	}
	if got := colours("paper: baseline", "overlayfs"); got[0] != got[1] {
		t.Errorf("the paper's points have another colour: %v", got)
	}
	two := styles([]Series{{Name: "faasnet"}, {Name: "faasnet: 1 stripe"}})
	if two[0].color != two[1].color || slices.Equal(two[0].dash, two[1].dash) {
		t.Errorf("variants of a system: %v", two)
	}
	seen := map[color.NRGBA]string{}
	for name, s := range systems {
		if seen[s.color] != "" {
			t.Errorf("%s looks like %s", name, seen[s.color])
		}
		seen[s.color] = name
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		axis   Axis
		lo, hi float64
		want   string
	}{
		{Axis{}, 0, 33, "0 10 20 30"},
		{Axis{}, 0, 0.5, "0 0.1 0.2 0.3 0.4 0.5"},
		{Axis{Log: true}, 1, 200, "1 2 5 10 20 50 100 200"},
		{Axis{Log: true}, 1, 1e6, "1 10 100 1000 10k 100k 1M"},
		{Axis{Ticks: []float64{1, 4, 99}}, 0, 10, "1 4"},
		{Axis{Names: []string{"a", "b"}}, -0.5, 1.5, "a b"},
	} {
		var got []string
		for _, tick := range (ticker{c.axis}).Ticks(c.lo, c.hi) {
			got = append(got, tick.Label)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v from %v to %v: got %q, want %q", c.axis, c.lo, c.hi, got, c.want)
		}
	}
}

func TestCDF(t *testing.T) {
	if got := CDF([]float64{3, 1}); !slices.Equal(got, []Point{At(1, 0), At(1, 50), At(3, 100)}) {
		t.Errorf("got %v", got)
	}
	if Count(nil) != nil {
		t.Error("points of nothing")
	}
}

func TestLogarithmHasNoZero(t *testing.T) {
	f := scaling()
	f.Series[0].Points = append(f.Series[0].Points, At(0, 3), At(3, 0))
	if _, err := f.SVG(); err != nil {
		t.Error(err)
	}
}
