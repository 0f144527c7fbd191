package plot

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// ticker labels an axis.
type ticker struct{ Axis }

// Ticks makes it a Ticker of gonum's.
func (t ticker) Ticks(lo, hi float64) (ticks []plot.Tick) {
	for i, name := range t.Names {
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: name})
	}
	if len(t.Names) > 0 {
		return ticks
	}
	values := t.Axis.Ticks
	switch {
	case values != nil:
	case t.Log:
		values = logarithmic(lo, hi)
	default:
		values = linear(lo, hi)
	}
	for _, v := range values {
		if slack := 1e-9 * (hi - lo); v >= lo-slack && v <= hi+slack {
			ticks = append(ticks, plot.Tick{Value: v, Label: short(v)})
		}
	}
	return ticks
}

// linear gives about six round values between lo and hi.
func linear(lo, hi float64) (values []float64) {
	const wanted = 6
	raw := (hi - lo) / wanted
	step := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 5, 10} {
		if m*step >= raw {
			step *= m
			break
		}
	}
	for i := math.Ceil(lo / step); i*step <= hi*(1+1e-9); i++ {
		values = append(values, i*step)
	}
	return values
}

// logarithmic gives powers of ten, and what lies between where there are few.
func logarithmic(lo, hi float64) (values []float64) {
	steps := []float64{1}
	switch decades := math.Log10(hi / lo); {
	case decades < 1:
		steps = []float64{1, 1.5, 2, 3, 4, 5, 6, 8}
	case decades < 3.2:
		steps = []float64{1, 2, 5}
	}
	for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
		for _, s := range steps {
			values = append(values, s*math.Pow(10, e))
		}
	}
	return values
}

// short writes a number as an axis does: 0.25, 12, 3k, 2M.
func short(v float64) string {
	suffix := ""
	for _, s := range []struct {
		of   float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e4, "k"}} {
		if math.Abs(v) >= s.of {
			unit := min(s.of, 1e9)
			if s.name == "k" {
				unit = 1e3
			}
			v, suffix = v/unit, s.name
			break
		}
	}
	digits := 3
	if a := math.Abs(v); a >= 1000 {
		digits = 4
	}
	return strconv.FormatFloat(roundTo(v, digits), 'f', -1, 64) + suffix
}

// roundTo rounds to so many significant digits.
func roundTo(v float64, digits int) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	if err != nil {
		return v // what FormatFloat wrote is a number
	}
	return r
}
