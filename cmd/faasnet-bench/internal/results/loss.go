package results

import (
	"cmp"
	_ "embed"
	"fmt"
	"path"
	"slices"
	"strings"
)

// loss is a figure in which another system is better than ours.
type loss struct {
	key   string // of the explanation: "ready/soci", or "ready/soci/recorded" where ours is recorded
	where string
	what  string
	ours  string
	other string
	ratio float64 // how many times better the other is
}

// better is by how much a figure must differ to be called better: less is
// chance.
const better = 1.05

//go:embed why.md
var why string

// reasons are the explanations of why.md by key: the text below each heading.
func reasons() map[string]string {
	all := map[string]string{}
	for part := range strings.SplitSeq("\n"+why, "\n## ") {
		key, text, ok := strings.Cut(part, "\n")
		if ok && key != "" {
			all[strings.TrimSpace(key)] = strings.TrimSpace(text)
		}
	}
	return all
}

// reason is the explanation of the key, or of the kind of figure that it
// begins with.
func reason(key string) (text string, ok bool) {
	all := reasons()
	for k := key; ; {
		if text, ok = all[k]; ok {
			return text, true
		}
		i := strings.LastIndex(k, "/")
		if i < 0 {
			return "", false
		}
		k = k[:i]
	}
}

// losses are found in all figures that are compared with others on the same
// work. The floor has its image on the disk and is no rival.
func (in Input) losses() (all []loss) {
	for _, b := range in.plain() {
		for _, n := range b.sizes() {
			for _, f := range forms() {
				mine, ok := b.find(f.name, n)
				if !ok {
					continue
				}
				for _, r := range b.Rows {
					if s := r.Str("system"); r.Int("vms") == n && s != ours && s != floor && s != "faasnet-notree" && r.Int("failed_vms") == 0 {
						all = append(all, b.compare(mine, r, f.note)...)
					}
				}
			}
		}
	}
	add := func(key, where, what, format string, mine, other float64) {
		if other > 0 && mine/other > better {
			all = append(all, loss{key, where, what, fmt.Sprintf(format, mine), fmt.Sprintf(format, other), mine / other})
		}
	}
	for _, f := range of(in.Files, "relay") {
		i := slices.IndexFunc(f.Summary, func(r Row) bool { return r.Str("protocol") == ours })
		for _, r := range f.Summary {
			if i < 0 || r.Str("protocol") == ours {
				continue
			}
			mine, p := f.Summary[i], r.Str("protocol")
			add("relay/cpu/"+p, "relay", "CPU of a GiB, "+p, "%.2f s", mine.Num("cpu_s_per_gib"), r.Num("cpu_s_per_gib"))
			add("relay/passing/"+p, "relay", "CPU of a GiB without own reading, "+p, "%.2f s", mine.Num("passing_cpu_s_per_gib"), r.Num("passing_cpu_s_per_gib"))
			add("relay/stored/"+p, "relay", "CPU of serving a stored GiB, "+p, "%.2f s", mine.Num("stored_cpu_s_per_gib"), r.Num("stored_cpu_s_per_gib"))
			add("relay/read/"+p, "relay", "own reading, "+p, "%.2f s", mine.Num("read_s"), r.Num("read_s"))
		}
	}
	for _, r := range in.summary("micro") {
		if r.Str("system") != ours {
			continue
		}
		name := strings.TrimSpace(r.Str("name") + " " + r.Str("state"))
		unit, key := "%.3g "+r.Str("unit"), cmp.Or(r.Str("state"), "-")+"/"+r.Str("name")
		add("micro/native/"+key, "parts", name+", overlayfs on ext4", unit, r.Num("median"), over(r.Num("median"), r.Num("over_native")))
		if s := r.Num("stargz_over"); s > 0 {
			add("micro/stargz/"+key, "parts", name+", stargz", unit, r.Num("median"), r.Num("median")*s)
		}
	}
	for _, f := range of(in.Files, "convert") {
		i := slices.IndexFunc(f.Summary, func(r Row) bool { return r.Str("system") == ours })
		for _, r := range f.Summary {
			if s := r.Str("system"); i >= 0 && s != ours {
				mine, where := f.Summary[i], "conversion of image "+r.Str("image")
				add("convert/seconds/"+s, where, "time, "+s, "%.1f s", mine.Num("seconds"), r.Num("seconds"))
				add("convert/cpu/"+s, where, "CPU, "+s, "%.1f s", mine.Num("cpu_s"), r.Num("cpu_s"))
				add("convert/size/"+s, where, "size, "+s, "%.1f MB", mine.Num("bytes_out")/mega, r.Num("bytes_out")/mega)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b loss) int { return cmp.Or(strings.Compare(a.key, b.key), -cmp.Compare(a.ratio, b.ratio)) })
	return all
}

func over(v, ratio float64) float64 {
	if ratio == 0 {
		return 0
	}
	return v / ratio
}

// measure is a figure of bursts in which less is better.
type measure struct {
	key, what, column, format string
	unit                      float64
}

func measures() []measure {
	return []measure{
		{"ready", "median time to READY", "ready_median_s", "%.2f s", 1},
		{"p95", "95th percentile of READY", "ready_p95_s", "%.2f s", 1},
		{"registry", "bytes from the registry", "registry_bytes", "%.1f MB", mega},
		{"cpu", "CPU seconds", "cpu_s", "%.1f s", 1},
		{"memory", "peak memory of daemons", "peak_memory_bytes", "%.0f MB", mega},
		{"disk", "disk", "disk_bytes", "%.0f MB", mega},
	}
}

// compare finds what the rival's row has better than ours; note is added to
// where that is.
func (b Bursts) compare(mine, rival Row, note string) (all []loss) {
	for _, m := range measures() {
		x, y := mine.Num(m.column), rival.Num(m.column)
		if y <= 0 || x/y <= better {
			continue
		}
		all = append(all, loss{
			key: path.Join(m.key, rival.Str("system"), strings.TrimPrefix(note, ", ")), where: fmt.Sprintf("image %s, %s, %s%s", b.Image, rate(b.Rate), vms(rival.Int("vms")), note), what: m.what + ", " + rival.Str("system"),
			ours: fmt.Sprintf(m.format, x/m.unit), other: fmt.Sprintf(m.format, y/m.unit), ratio: x / y,
		})
	}
	return all
}

func vms(n int) string {
	if n == 1 {
		return "1 VM"
	}
	return fmt.Sprintf("%d VMs", n)
}

// explain writes the table of losses and why they are.
func (in Input) explain() (text string, unexplained []string) {
	all := in.losses()
	if len(all) == 0 {
		return "Nothing that was measured is worse than another system on the same work by more than 5 %.\n", nil
	}
	var b strings.Builder
	b.WriteString("| where | what, and who is better | ours | theirs | times |\n| --- | --- | ---: | ---: | ---: |\n")
	for _, l := range all {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %.2f |\n", l.where, l.what, l.ours, l.other, l.ratio)
	}
	b.WriteString("\n")
	var texts []string
	of := map[string][]string{} // what each text explains
	for _, l := range all {
		text, ok := reason(l.key)
		switch {
		case !ok && !slices.Contains(unexplained, l.key):
			unexplained = append(unexplained, l.key)
		case ok && len(of[text]) == 0:
			texts = append(texts, text)
			fallthrough
		case ok && !slices.Contains(of[text], l.what):
			of[text] = append(of[text], l.what)
		}
	}
	for _, text := range texts {
		fmt.Fprintf(&b, "* %s: %s\n", strings.Join(of[text], "; "), strings.ReplaceAll(text, "\n", "\n  "))
	}
	for _, key := range unexplained {
		fmt.Fprintf(&b, "* %s: not explained yet\n", key)
	}
	return b.String(), unexplained
}
