package results

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// column is one of a table: its head, and what a row has there.
type column struct {
	head string
	cell func(Row) string
}

// table writes rows in Markdown. Columns that are empty in every row are left
// out; numbers are to the right.
func table(columns []column, rows []Row) string {
	var heads, lines []string
	cells := make([][]string, len(rows))
	for _, c := range columns {
		var mine []string
		filled, numbers := false, true
		for _, r := range rows {
			text := strings.ReplaceAll(c.cell(r), "|", `\|`)
			filled = filled || text != ""
			numbers = numbers && (text == "" || text[0] >= '0' && text[0] <= '9' || text[0] == '-' || text[0] == '+')
			mine = append(mine, text)
		}
		if !filled {
			continue
		}
		heads = append(heads, c.head)
		lines = append(lines, map[bool]string{true: "---:", false: "---"}[numbers])
		for i, text := range mine {
			cells[i] = append(cells[i], text)
		}
	}
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(heads)
	line(lines)
	for _, c := range cells {
		line(c)
	}
	return b.String()
}

// text is a column of what a key has.
func text(head, key string) column {
	return column{head, func(r Row) string { return r.Str(key) }}
}

// num is a column of numbers divided by unit; 0 is left empty.
func num(head, key string, digits int, unit float64) column {
	return column{head, func(r Row) string { return number(r.Num(key)/unit, digits) }}
}

func number(v float64, digits int) string {
	if v == 0 {
		return ""
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// times is a column of ratios.
func times(head, key string) column {
	return column{head, func(r Row) string { return multiple(r.Num(key)) }}
}

func multiple(v float64) string {
	switch {
	case v == 0:
		return ""
	case v >= 10:
		return fmt.Sprintf("%.1fx", v)
	}
	return fmt.Sprintf("%.2fx", v)
}

func percent(v float64) string { return fmt.Sprintf("%.1f %%", v*100) }

const mega = 1e6

// howSimulated are keys that say nothing of the result.
var howSimulated = []string{"scale", "simulated_in_s", "by_rule"}

// generic makes a table of rows that the tool knows nothing more of: by their
// keys, in their order, units by the ends of the keys.
func generic(rows []Row) string {
	var keys []string
	seen := map[string]bool{}
	for _, r := range rows {
		for _, k := range r.keys {
			if _, nested := r.values[k].(map[string]any); !seen[k] && !nested && k != "recorded" && !slices.Contains(howSimulated, k) {
				seen[k] = true
				keys = append(keys, k)
			}
		}
	}
	var columns []column
	for _, k := range keys {
		columns = append(columns, guess(k))
	}
	return table(columns, rows)
}

// guess tells a column's unit by the end of its key.
func guess(key string) column {
	if key == "system" {
		return system()
	}
	head := strings.ReplaceAll(key, "_", " ")
	switch {
	case strings.HasSuffix(key, "_bytes_s"):
		return num(strings.TrimSuffix(head, " bytes s")+", MB/s", key, 2, mega)
	case strings.HasSuffix(key, "_bytes"):
		return num(strings.TrimSuffix(head, " bytes")+", MB", key, 1, mega)
	case strings.HasSuffix(key, "_size"):
		return num(head+", KiB", key, 0, 1024)
	case strings.HasSuffix(key, "_s"):
		return num(strings.TrimSuffix(head, " s")+", s", key, 2, 1)
	case strings.Contains(key, "_over_"), strings.HasPrefix(key, "over_"):
		return times(head, key)
	case strings.HasPrefix(key, "of_"), strings.HasSuffix(key, "_of_line"):
		return column{head, func(r Row) string {
			if !r.Has(key) {
				return ""
			}
			return percent(r.Num(key))
		}}
	}
	return column{head, func(r Row) string {
		if v, ok := r.values[key].(float64); ok && v != math.Trunc(v) {
			return strconv.FormatFloat(v, 'g', 4, 64)
		} else if ok && v == 0 {
			return ""
		}
		return r.Str(key)
	}}
}
