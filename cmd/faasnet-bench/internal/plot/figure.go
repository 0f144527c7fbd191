// Package plot draws the lab's figures, as SVG for pages and as PNG.
//
// A system has the same colour and marker in every figure, of a palette that
// colour-blind readers can tell apart (Okabe and Ito's).
package plot

import (
	"cmp"
	"slices"
)

// Figure is one plot. Draw it with Write.
type Figure struct {
	Title  string
	Note   string // below the title: what was measured, where
	X, Y   Axis
	Series []Series
	Rules  []Rule
}

// Axis is the horizontal or the vertical one. Its range is that of the data
// and starts at 0, unless it says otherwise or is logarithmic.
type Axis struct {
	Label string // with the unit: "time to READY, s"
	Log   bool
	Min   float64 // of the range, where Max > Min
	Max   float64
	Ticks []float64 // that are labelled; nil: chosen
	Names []string  // of the places 0, 1, ... along the axis, in place of numbers
}

// Kind is how a series is drawn.
type Kind int

// Kinds. Bars stand at the places of X.Names, side by side with those of other
// series. Steps keep a value until the next point.
const (
	Line Kind = iota
	Steps
	Bars
	Points
)

// Series is what a system, or a part of it, measures. A name of a system gives
// the system's style, as does one in "faasnet: 2 stripes"; "paper" and "paper:
// faasnet" give the style of the paper's points. Others get what is left.
type Series struct {
	Name   string
	Kind   Kind
	Points []Point
	// Plain leaves out the markers: for many points.
	Plain bool
}

// Point is one value. Low and High, where they differ, are drawn as its spread.
type Point struct{ X, Y, Low, High float64 }

// Rule is a horizontal line across the figure: a limit, a target.
type Rule struct {
	Name string
	Y    float64
}

// At makes a point without a spread.
func At(x, y float64) Point { return Point{X: x, Y: y} }

// CDF gives, for drawing as Steps, the share of values that a value is not
// exceeded by, in percent.
func CDF(values []float64) []Point {
	return cumulative(values, 100/float64(max(1, len(values))))
}

// Count is as CDF, in numbers.
func Count(values []float64) []Point { return cumulative(values, 1) }

func cumulative(values []float64, each float64) []Point {
	if len(values) == 0 {
		return nil
	}
	s := slices.SortedFunc(slices.Values(values), cmp.Compare[float64])
	points := []Point{At(s[0], 0)}
	for i, v := range s {
		points = append(points, At(v, float64(i+1)*each))
	}
	return points
}
