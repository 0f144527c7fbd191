package plot

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Sizes, in points of 1/72 inch.
const (
	width, height       = vg.Length(504), vg.Length(324)
	titleSize, textSize = vg.Length(12.5), vg.Length(9.5)
	margin              = vg.Length(10)
	gap                 = vg.Length(6)
	markerRadius        = vg.Length(3.2)
)

func face(size vg.Length, bold bool) text.Style {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	if bold {
		f.Weight = 3 // golang.org/x/image/font.WeightBold
	}
	return text.Style{Color: ink, Font: f, Handler: plot.DefaultTextHandler}
}

// drawOn draws the figure: title, note and legend on top, the data below.
func (f Figure) drawOn(c draw.Canvas) {
	c.SetColor(rgb(0xFFFFFF))
	c.Fill(c.Rectangle.Path())
	c = draw.Crop(c, margin, -margin-gap, margin, -margin)
	top := func(st text.Style, s string) {
		if s == "" {
			return
		}
		st.YAlign = draw.YTop
		c.FillText(st, vg.Point{X: c.Min.X, Y: c.Max.Y}, s)
		c.Max.Y -= st.Height(s) + gap
	}
	top(face(titleSize, true), f.Title)
	note := face(textSize, false)
	note.Color = faint
	top(note, f.Note)
	looks := styles(f.Series)
	f.Series = f.shown()
	c.Max.Y -= f.legend(c, looks)
	top(face(textSize, false), f.Y.Label)
	if f.X.Label != "" {
		st := face(textSize, false)
		st.XAlign = draw.XCenter
		c.FillText(st, vg.Point{X: c.Center().X, Y: c.Min.Y}, f.X.Label)
		c.Min.Y += st.Height(f.X.Label) + gap/2
	}
	f.plot(looks).Draw(c)
}

func (f Figure) plot(looks []style) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	x, y := f.ranges()
	f.X.configure(&p.X, x)
	f.Y.configure(&p.Y, y)
	p.Add(grid{})
	places := placesOf(f.Series)
	for i, s := range f.Series {
		if s.Kind == Bars {
			p.Add(bar{s, looks[i], i, places})
		} else {
			p.Add(curve{s, looks[i]})
		}
	}
	for _, r := range f.Rules {
		p.Add(rule(r))
	}
	return p
}

// shown are the series without the points that a logarithmic axis has no place for.
func (f Figure) shown() []Series {
	all := slices.Clone(f.Series)
	for i, s := range all {
		all[i].Points = slices.DeleteFunc(slices.Clone(s.Points), func(p Point) bool {
			lowest := p.Y
			if p.Low != p.High {
				lowest = min(p.Y, p.Low)
			}
			return f.X.Log && p.X <= 0 || f.Y.Log && lowest <= 0
		})
	}
	return all
}

// configure sets the range, ticks and looks of one of gonum's axes.
func (a Axis) configure(to *plot.Axis, r extent) {
	to.Min, to.Max = r.min, r.max
	to.Tick.Label.Font, to.Tick.Label.Color = face(textSize, false).Font, ink
	to.Tick.LineStyle.Color, to.LineStyle.Color = faint, faint
	to.Tick.Length, to.Padding = 4, 0
	if a.Log {
		to.Scale = plot.LogScale{}
	}
	to.Tick.Marker = ticker{a}
	if len(a.Names) > 0 {
		to.Tick.LineStyle.Color = rgb(0xFFFFFF) // only its room
	}
}

// extent is the range of an axis.
type extent struct{ min, max float64 }

func (f Figure) ranges() (x, y extent) {
	x, y = extent{math.Inf(1), math.Inf(-1)}, extent{math.Inf(1), math.Inf(-1)}
	for _, s := range f.Series {
		for _, p := range s.Points {
			x.take(p.X)
			y.take(p.Y)
			if p.Low != p.High {
				y.take(p.Low)
				y.take(p.High)
			}
		}
	}
	for _, r := range f.Rules {
		y.take(r.Y)
	}
	x, y = f.X.extent(x), f.Y.extent(y)
	if f.Y.Max <= f.Y.Min { // room for what is drawn around the highest point
		if f.Y.Log {
			y.max *= 1.25
		} else {
			y.max += 0.08 * (y.max - y.min)
		}
	}
	return x, y
}

func (e *extent) take(v float64) { e.min, e.max = min(e.min, v), max(e.max, v) }

// extent is the axis's range for data of the range e.
func (a Axis) extent(e extent) extent {
	switch {
	case len(a.Names) > 0:
		return extent{-0.5, float64(len(a.Names)) - 0.5}
	case a.Max > a.Min:
		return extent{a.Min, a.Max}
	case e.min > e.max:
		e = extent{1, 1} // no data
	}
	if a.Log {
		e.min = cmp.Or(max(e.min, 0), e.max/10) // logarithms have no 0
		return extent{e.min / 1.25, e.max * 1.12}
	}
	e.min = min(e.min, 0)
	if e.max <= e.min {
		e.max = e.min + 1
	}
	return e
}
