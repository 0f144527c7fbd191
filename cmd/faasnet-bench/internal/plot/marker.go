package plot

import (
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// marker is a shape around a point: corners of a polygon, or ends of strokes,
// in units of markerRadius.
type marker struct {
	corners []vg.Point
	strokes bool // each two corners are a stroke
}

var (
	circle  = marker{corners: regular(24, 0, 0.95)}
	square  = marker{corners: regular(4, math.Pi/4, 1.2)}
	diamond = marker{corners: regular(4, 0, 1.3)}
	up      = marker{corners: regular(3, math.Pi/2, 1.3)}
	down    = marker{corners: regular(3, -math.Pi/2, 1.3)}
	plus    = marker{corners: []vg.Point{{X: -1.1}, {X: 1.1}, {Y: -1.1}, {Y: 1.1}}, strokes: true}
	cross   = marker{corners: []vg.Point{{X: -0.9, Y: -0.9}, {X: 0.9, Y: 0.9}, {X: -0.9, Y: 0.9}, {X: 0.9, Y: -0.9}}, strokes: true}
)

// regular is a polygon of n corners at radius r, the first at angle a.
func regular(n int, a, r float64) (corners []vg.Point) {
	for i := range n {
		t := a + 2*math.Pi*float64(i)/float64(n)
		corners = append(corners, vg.Point{X: vg.Length(r * math.Cos(t)), Y: vg.Length(r * math.Sin(t))})
	}
	return corners
}

// draw puts the style's marker at a point.
func (s style) draw(c draw.Canvas, at vg.Point) {
	var points []vg.Point
	for _, p := range s.marker.corners {
		points = append(points, vg.Point{X: at.X + markerRadius*p.X, Y: at.Y + markerRadius*p.Y})
	}
	line := draw.LineStyle{Color: s.color, Width: 1.3}
	switch {
	case s.marker.strokes:
		line.Width = 1.6
		for i := 0; i+1 < len(points); i += 2 {
			c.StrokeLines(line, points[i:i+2])
		}
	case s.hollow:
		c.FillPolygon(rgb(0xFFFFFF), points)
		c.StrokeLines(line, append(points, points[0]))
	default:
		c.FillPolygon(s.color, points)
	}
}

func (s style) line() draw.LineStyle {
	return draw.LineStyle{Color: s.color, Width: s.width, Dashes: s.dash}
}
