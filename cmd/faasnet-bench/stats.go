package main

import (
	"math"
	"slices"
)

// number is what medians are taken of.
type number interface{ ~int64 | ~float64 }

// median is 0 of nothing, and the mean of the two in the middle of an even
// number of values.
func median[N number](values []N) N {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// percentile returns the smallest value that at least the fraction p of the
// values do not exceed; 0 of nothing.
func percentile[N number](values []N, p float64) N {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	return s[max(0, int(math.Ceil(p*float64(len(s))))-1)]
}

// column takes one figure of each row.
func column[R any, N number](rows []R, of func(R) N) []N {
	values := make([]N, 0, len(rows))
	for _, r := range rows {
		values = append(values, of(r))
	}
	return values
}

// by groups rows by a key, in the order in which keys come.
func by[R any, K comparable](rows []R, key func(R) K) (keys []K, groups map[K][]R) {
	groups = map[K][]R{}
	for _, r := range rows {
		k := key(r)
		if _, known := groups[k]; !known {
			keys = append(keys, k)
		}
		groups[k] = append(groups[k], r)
	}
	return keys, groups
}

// ratios divides figures of system a by those of system b, each pair within
// one repetition; repetitions that lack one are left out.
func ratios[R any](rows []R, rep func(R) int, system func(R) string, a, b string, of func(R) float64) []float64 {
	reps, groups := by(rows, rep)
	var out []float64
	for _, k := range reps {
		var x, y float64
		for _, r := range groups[k] {
			if system(r) == a {
				x = of(r)
			}
			if system(r) == b {
				y = of(r)
			}
		}
		if x > 0 && y > 0 {
			out = append(out, x/y)
		}
	}
	return out
}
