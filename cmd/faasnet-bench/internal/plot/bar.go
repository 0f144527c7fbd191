package plot

import (
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// places are the series that have a bar at each place of the axis.
type places map[float64][]int

func placesOf(series []Series) places {
	at := places{}
	for i, s := range series {
		for _, v := range s.Points {
			if s.Kind == Bars {
				at[v.X] = append(at[v.X], i)
			}
		}
	}
	return at
}

// width is that of a bar, with the gap beside it, where a place has so much room.
func (p places) width(room vg.Length) vg.Length {
	const share, widest = 0.78, 56
	most := 1
	for _, s := range p {
		most = max(most, len(s))
	}
	return min(room*share/vg.Length(most), widest)
}

// bar draws a series of bars.
type bar struct {
	Series
	style  style
	index  int // of the series
	places places
}

// Plot makes it a Plotter of gonum's.
func (b bar) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	w := b.places.width(x(1) - x(0))
	for _, v := range b.Points {
		here := b.places[v.X]
		left := x(v.X) + w*(vg.Length(slices.Index(here, b.index))-vg.Length(len(here))/2) + w*0.06
		right, top := left+w*0.88, y(min(v.Y, p.Y.Max))
		corners := []vg.Point{{X: left, Y: c.Min.Y}, {X: left, Y: top}, {X: right, Y: top}, {X: right, Y: c.Min.Y}}
		if b.style.hollow {
			c.StrokeLines(draw.LineStyle{Color: b.style.color, Width: 1.2, Dashes: b.style.dash}, corners)
		} else {
			c.FillPolygon(b.style.color, corners)
		}
		middle := (left + right) / 2
		label := top
		if v.Low != v.High {
			dark := b.style
			dark.color = ink
			whisker(c, dark, middle, y(v.Low), y(v.High))
			label = max(label, y(v.High))
		}
		st := face(textSize-1.5, false)
		st.XAlign = draw.XCenter
		if text := short(v.Y); st.Width(text) < w*1.25 {
			c.FillText(st, vg.Point{X: middle, Y: label + 2}, text)
		}
	}
}
