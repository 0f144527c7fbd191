package plot

import (
	"image/color"
	"strings"

	"gonum.org/v1/plot/vg"
)

// Colours of Okabe and Ito, without yellow, which is hard to see on white.
var (
	black      = rgb(0x000000)
	orange     = rgb(0xE69F00)
	sky        = rgb(0x56B4E9)
	green      = rgb(0x009E73)
	blue       = rgb(0x0072B2)
	vermillion = rgb(0xD55E00)
	purple     = rgb(0xCC79A7)
	grey       = rgb(0x8C8C8C)

	ink   = rgb(0x222222) // text
	faint = rgb(0x6B6B6B) // notes, axes
	mesh  = rgb(0xE3E3E3) // grid
)

func rgb(v uint32) color.NRGBA {
	return color.NRGBA{R: uint8(v >> 16), G: uint8(v >> 8), B: uint8(v), A: 0xFF}
}

// style is how a series looks.
type style struct {
	color  color.NRGBA
	marker marker
	dash   []vg.Length
	width  vg.Length
	hollow bool // markers and bars: only the outline
}

const thin, thick = vg.Length(1.5), vg.Length(2.4)

// systems are the names that have a style of their own.
var systems = map[string]style{
	"faasnet":        {color: blue, marker: circle, width: thick},
	"faasnet-notree": {color: sky, marker: square, width: thin},
	"overlayfs":      {color: grey, marker: up, width: thin},
	"erofs":          {color: purple, marker: diamond, width: thin},
	"stargz":         {color: orange, marker: up, width: thin},
	"stargz-nobg":    {color: vermillion, marker: down, width: thin},
	"soci":           {color: green, marker: square, width: thin},
	"floor":          {color: black, marker: plus, width: thin, dash: []vg.Length{1.5, 2.5}},
}

// paperOf says which system of ours a name in the paper is closest to.
var paperOf = map[string]string{"baseline": "overlayfs", "on-demand": "faasnet-notree", "faasnet": "faasnet", "kraken": "erofs", "dadi+p2p": "soci"}

// others are for series that are no system, in their order.
var others = []style{
	{color: blue, marker: circle, width: thin},
	{color: vermillion, marker: square, width: thin},
	{color: green, marker: up, width: thin},
	{color: orange, marker: down, width: thin},
	{color: purple, marker: diamond, width: thin},
	{color: sky, marker: plus, width: thin},
	{color: grey, marker: cross, width: thin},
	{color: black, marker: circle, hollow: true, width: thin},
}

// variants are the dashes of further series of one system.
var variants = [][]vg.Length{{5, 3}, {8, 2, 2, 2}}

// styles gives each series its style.
func styles(series []Series) []style {
	all := make([]style, len(series))
	taken := map[color.NRGBA]int{}
	var unknown []int
	for i, s := range series {
		st, ok := styleOf(s.Name)
		if !ok {
			unknown = append(unknown, i)
			continue
		}
		if n := taken[st.color]; n > 0 && len(st.dash) == 0 { // a variant of the same system
			st.dash = variants[(n-1)%len(variants)]
		}
		taken[st.color]++
		all[i] = st
	}
	next := 0
	for _, i := range unknown {
		for k := range others { // one whose colour no system has, if any is left
			if at := (next + k) % len(others); taken[others[at].color] == 0 {
				next = at
				break
			}
		}
		all[i] = others[next%len(others)]
		next++
	}
	return all
}

func styleOf(name string) (style, bool) {
	lower := strings.ToLower(name)
	first, rest, _ := strings.Cut(lower, ":")
	first, _, _ = strings.Cut(first, ",") // "faasnet, recorded"
	if first == "paper" {
		st := style{color: faint}
		if like, ok := paperOf[strings.TrimSpace(rest)]; ok {
			st.color = systems[like].color
		}
		st.marker, st.width, st.dash, st.hollow = circle, thin, []vg.Length{2, 3}, true
		return st, true
	}
	st, ok := systems[first]
	return st, ok
}
