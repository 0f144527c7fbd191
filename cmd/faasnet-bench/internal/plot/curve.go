package plot

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// curve draws a series of lines, steps or points.
type curve struct {
	Series
	style style
}

// Plot makes it a Plotter of gonum's.
func (s curve) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	var line, marks []vg.Point
	for i, v := range s.Points {
		at := vg.Point{X: x(v.X), Y: y(v.Y)}
		if s.Kind == Steps && i > 0 {
			line = append(line, vg.Point{X: at.X, Y: line[len(line)-1].Y})
		}
		line, marks = append(line, at), append(marks, at)
		if v.Low != v.High {
			whisker(c, s.style, at.X, y(v.Low), y(v.High))
		}
	}
	if s.Kind == Steps && len(line) > 0 { // to the right edge: the value holds
		line = append(line, vg.Point{X: c.Max.X, Y: line[len(line)-1].Y})
	}
	if s.Kind != Points {
		c.StrokeLines(s.style.line(), c.ClipLinesXY(line)...)
	}
	if s.Plain || s.Kind == Steps {
		return
	}
	for _, at := range marks {
		if c.Contains(at) {
			s.style.draw(c, at)
		}
	}
}

// GlyphBoxes keeps room for markers at the edges.
func (s curve) GlyphBoxes(p *plot.Plot) (boxes []plot.GlyphBox) {
	if s.Plain || s.Kind == Steps {
		return nil
	}
	r := markerRadius
	for _, v := range s.Points {
		boxes = append(boxes, plot.GlyphBox{X: p.X.Norm(v.X), Y: p.Y.Norm(v.Y), Rectangle: vg.Rectangle{Min: vg.Point{X: -r, Y: -r}, Max: vg.Point{X: r, Y: r}}})
	}
	return boxes
}

// whisker draws the spread of a point.
func whisker(c draw.Canvas, s style, x, low, high vg.Length) {
	const half = 2.5
	line := draw.LineStyle{Color: s.color, Width: 0.9}
	c.StrokeLines(line, c.ClipLinesXY([]vg.Point{{X: x, Y: low}, {X: x, Y: high}},
		[]vg.Point{{X: x - half, Y: low}, {X: x + half, Y: low}}, []vg.Point{{X: x - half, Y: high}, {X: x + half, Y: high}})...)
}

// rule is a Rule as a Plotter of gonum's.
type rule Rule

// Plot draws the line and its name above its right end.
func (r rule) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&c)
	at := y(r.Y)
	c.StrokeLine2(draw.LineStyle{Color: ink, Width: 0.9, Dashes: []vg.Length{4, 3}}, c.Min.X, at, c.Max.X, at)
	st := face(textSize-1, false)
	st.XAlign = draw.XRight
	c.FillText(st, vg.Point{X: c.Max.X, Y: at + 2}, r.Name)
}

// grid draws a faint line at each labelled value of the vertical axis.
type grid struct{}

// Plot makes it a Plotter of gonum's.
func (grid) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&c)
	for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		if t.IsMinor() || t.Value <= p.Y.Min || t.Value > p.Y.Max {
			continue
		}
		c.StrokeLine2(draw.LineStyle{Color: mesh, Width: 0.7}, c.Min.X, y(t.Value), c.Max.X, y(t.Value))
	}
}
