package plot

import (
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const sample = vg.Length(20) // of a line, in the legend

// legend draws the names of the series in rows at the top of c and returns
// the height that they take. One series needs none: the title says what it is.
func (f Figure) legend(c draw.Canvas, looks []style) vg.Length {
	if len(f.Series) < 2 {
		return 0
	}
	st := face(textSize, false)
	st.YAlign = draw.YCenter
	row := st.Height("x") + gap*0.8
	x, y := c.Min.X, c.Max.Y-row/2
	for i, s := range f.Series {
		w := sample + gap*0.8 + st.Width(s.Name)
		if x > c.Min.X && x+w > c.Max.X {
			x, y = c.Min.X, y-row
		}
		f.sample(c, s, looks[i], vg.Point{X: x, Y: y})
		c.FillText(st, vg.Point{X: x + sample + gap*0.8, Y: y}, s.Name)
		x += w + 2.5*gap
	}
	return c.Max.Y - y + row/2 + gap
}

// sample draws what stands for a series, from at to the right.
func (Figure) sample(c draw.Canvas, s Series, look style, at vg.Point) {
	if s.Kind == Bars {
		const h = 4
		left := at.X + sample/2 - h
		box := []vg.Point{{X: left, Y: at.Y - h}, {X: left, Y: at.Y + h}, {X: left + 2*h, Y: at.Y + h}, {X: left + 2*h, Y: at.Y - h}}
		if look.hollow {
			c.StrokeLines(draw.LineStyle{Color: look.color, Width: 1.2, Dashes: look.dash}, append(box, box[0]))
			return
		}
		c.FillPolygon(look.color, box)
		return
	}
	if s.Kind != Points {
		c.StrokeLine2(look.line(), at.X, at.Y, at.X+sample, at.Y)
	}
	if !s.Plain && s.Kind != Steps {
		look.draw(c, vg.Point{X: at.X + sample/2, Y: at.Y})
	}
}
