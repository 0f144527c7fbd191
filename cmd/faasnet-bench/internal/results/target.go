package results

import (
	"fmt"
	"strings"
)

// target is a promise, and how it is read from results.
type target struct {
	what   string
	bound  string
	values func(Input) []judged
}

// judged is one measured value of a target.
type judged struct {
	of    string // "N = 8"
	value string
	met   bool
}

const (
	overlayfs = "overlayfs"
	ours      = "faasnet"
	floor     = "floor"
	recorded  = ", recorded" // ends the names of ours where the image is a recorded conversion
)

// form is a conversion of ours that targets are read with: the name of rows
// that have it, what it adds to a line, and the end of the keys of ratios to it.
type form struct{ name, note, key string }

func forms() []form {
	return []form{{ours, "", "_over_faasnet"}, {ours + recorded, recorded, "_over_recorded"}}
}

// targets are those of the lab, in its order.
func targets() []target {
	return []target{
		{"time to READY, image b, 25 Mbit/s, 8 and 16 VMs: full pull / ours", ">= 13.4 (the paper's factor)", rivalOver(13.4, overlayfs)},
		{"the same: stargz-nobg / ours and soci / ours", ">= 5", rivalOver(5, "stargz-nobg", "soci")},
		{"READY of 16 VMs / of one, image c, 50 Mbit/s", "<= 1.2", scaling("ready_over_one_vm", 1.2, "50mbit", true, "c")},
		{"bytes from the registry for 16 VMs / for one, images b and c", "<= 1.1", scaling("registry_bytes_over_one_vm", 1.1, "", false, "b", "c")},
		{"CPU seconds of 8 starts, image b: stargz-nobg / ours", ">= 2", func(in Input) []judged {
			return cpu(in, "stargz-nobg", func(r float64) (float64, bool) { return r, r >= 2 })
		}},
		{"the same: ours / floor", "<= 2", func(in Input) []judged {
			return cpu(in, floor, func(r float64) (float64, bool) { return 1 / r, 1/r <= 2 })
		}},
		{"bytes until READY / full pull, one VM", "<= 16.1 % (the paper)", ofPull},
		{"2,500 functions on 1,000 VMs, in virtual time, until the last is READY", "<= 8.3 s (the paper)", many},
		{"metadata walk and warm sequential read, ours / overlayfs on ext4", "<= 1.1", micros("over_native", atMost(1.1), "walk cold", "walk warm", "seq warm")},
		{"cold sequential read of what is on the disk, ours / overlayfs on ext4", "<= 1.5", micros("over_native", atMost(1.5), "seq cold")},
		{"metadata walk, stargz / ours", ">= 5", micros("stargz_over", atLeast(5), "walk cold", "walk warm")},
		{"a stream of blocks to two VMs over 1 Gbit/s: of the line", ">= 90 %", relayLine},
		{"the same: CPU of a GiB, ours / gRPC", "<= 0.8", relayOver("cpu_s_per_gib", 0.8)},
		{"CPU of serving a GiB of stored blocks, ours / gRPC", "<= 0.25", relayOver("stored_cpu_s_per_gib", 0.25)},
		{"two striped trees / one tree, a whole image, until the last VM has it", "<= 0.6", stripes},
		{"memory of the daemon with 20 functions of 29 layers", "<= 100 MiB", memory},
	}
}

func atMost(bound float64) func(float64) bool  { return func(v float64) bool { return v <= bound } }
func atLeast(bound float64) func(float64) bool { return func(v float64) bool { return v >= bound } }

// rivalOver compares READY of rivals with ours.
func rivalOver(bound float64, rivals ...string) func(Input) []judged {
	return func(in Input) (all []judged) {
		for _, b := range in.plain() {
			if b.Image != "b" || b.Rate != "25mbit" {
				continue
			}
			for _, n := range []int{8, 16} {
				for _, rival := range rivals {
					for _, f := range forms() {
						if r, ok := b.find(rival, n); ok && r.Num("ready"+f.key) > 0 {
							v := r.Num("ready" + f.key)
							of := fmt.Sprintf("%s, %d VMs%s", rival, n, f.note)
							if r.Has("fallback") {
								of += " (a full pull in truth)"
							}
							all = append(all, judged{of, multiple(v), v >= bound})
						}
					}
				}
			}
		}
		return all
	}
}

// scaling compares 16 VMs of ours with one; share adds how much of the time the
// processors were busy.
func scaling(key string, bound float64, link string, share bool, images ...string) func(Input) []judged {
	return func(in Input) (all []judged) {
		for _, image := range images {
			for _, b := range in.plain() {
				if b.Image != image || link != "" && b.Rate != link {
					continue
				}
				for _, f := range forms() {
					r, ok := b.find(f.name, 16)
					if !ok || r.Num(key) == 0 {
						continue
					}
					text := multiple(r.Num(key))
					if cpus := in.cpus(); share && cpus > 0 && r.Num("ready_max_s") > 0 {
						text += fmt.Sprintf(" (processors busy for %.0f %% of it)", 100*r.Num("cpu_s")/r.Num("ready_max_s")/float64(cpus))
					}
					all = append(all, judged{fmt.Sprintf("image %s, %s%s", image, rate(b.Rate), f.note), text, r.Num(key) <= bound})
				}
			}
		}
		return all
	}
}

func (in Input) cpus() int {
	for _, f := range in.Files {
		return f.Machine.CPUs
	}
	return 0
}

func cpu(in Input, other string, judge func(float64) (float64, bool)) (all []judged) {
	for _, b := range in.plain() {
		r, ok := b.find(other, 8)
		if b.Image != "b" || !ok {
			continue
		}
		for _, f := range forms() {
			if over := r.Num("cpu" + f.key); over > 0 {
				v, met := judge(over)
				all = append(all, judged{rate(b.Rate) + f.note, multiple(v), met})
			}
		}
	}
	return all
}

// ofPull is from figure 20 and from comparisons of one VM.
func ofPull(in Input) (all []judged) {
	const bound = 0.161
	for _, r := range in.summary("figure 20") {
		if of := r.Num("of_full_pull"); r.Str("system") == "faasnet-notree" && of > 0 {
			note := strings.TrimPrefix(r.name(), r.Str("system"))
			all = append(all, judged{fmt.Sprintf("image %s, blocks of %.0f KiB%s", r.Str("image"), r.Num("block_size")/1024, note), percent(of), of <= bound})
		}
	}
	for _, b := range in.plain() {
		pull, ok := b.find(overlayfs, 1)
		for _, f := range forms() {
			if over := pull.Num("registry_bytes" + f.key); ok && over > 0 {
				all = append(all, judged{fmt.Sprintf("image %s, %s%s", b.Image, rate(b.Rate), f.note), percent(1 / over), 1/over <= bound})
			}
		}
	}
	return all
}

func many(in Input) (all []judged) {
	for _, r := range in.summary("sim many") {
		if last := r.Num("ready_max_s"); r.Int("vms") == 1000 && r.Int("stripes") > 0 && last > 0 {
			tree := map[bool]string{true: "two striped trees", false: "one tree"}[r.Int("stripes") == 2]
			all = append(all, judged{fmt.Sprintf("%s, %d starts, %s", r.Str("image"), r.Int("starts"), tree), fmt.Sprintf("%.1f s", last), last <= 8.3 && r.Int("failed") == 0})
		}
	}
	return all
}

// micros reads ratios of parts of ours, named by name and state.
func micros(key string, met func(float64) bool, names ...string) func(Input) []judged {
	return func(in Input) (all []judged) {
		for _, r := range in.summary("micro") {
			for _, n := range names {
				if name := r.Str("name") + " " + r.Str("state"); r.Str("system") == ours && name == n && r.Num(key) > 0 {
					all = append(all, judged{name, multiple(r.Num(key)), met(r.Num(key))})
				}
			}
		}
		return all
	}
}

func relayLine(in Input) (all []judged) {
	for _, r := range in.summary("relay") {
		if of := r.Num("of_link"); r.Str("protocol") == ours && r.Str("rate") == "1gbit" {
			all = append(all, judged{"", percent(of), of >= 0.9})
		}
	}
	return all
}

// relayOver compares with gRPC of the same file.
func relayOver(key string, bound float64) func(Input) []judged {
	return func(in Input) (all []judged) {
		for _, f := range of(in.Files, "relay") {
			var mine, grpc float64
			for _, r := range f.Summary {
				switch r.Str("protocol") {
				case ours:
					mine = r.Num(key)
				case "grpc":
					grpc = r.Num(key)
				}
			}
			if mine > 0 && grpc > 0 {
				all = append(all, judged{"", multiple(mine / grpc), mine/grpc <= bound})
			}
		}
		return all
	}
}

// stripes compares the two forms over whole images.
func stripes(in Input) (all []judged) {
	for _, b := range in.Bursts {
		if !b.Full || b.Faults {
			continue
		}
		for _, two := range b.Rows {
			for _, one := range b.Rows {
				if two.Int("stripes") == 2 && one.Int("stripes") == 1 && one.name() == two.name() && one.Int("vms") == two.Int("vms") && one.Num("ready_max_s") > 0 {
					v := two.Num("ready_max_s") / one.Num("ready_max_s")
					all = append(all, judged{fmt.Sprintf("real, %d VMs, image %s, %s", one.Int("vms"), b.Image, rate(b.Rate)), multiple(v), v <= 0.6})
				}
			}
		}
	}
	return all
}

func memory(in Input) (all []judged) {
	for _, r := range in.summary("micro") {
		if r.Str("name") == "rss" && r.Str("target") != "" {
			all = append(all, judged{r.Str("state"), fmt.Sprintf("%.0f MiB", r.Num("median")), r.Num("median") <= 100})
		}
	}
	return all
}

// judge makes the table of targets.
func (in Input) judge() string {
	var b strings.Builder
	b.WriteString("| measure | target | measured | holds |\n| --- | --- | --- | --- |\n")
	for _, t := range targets() {
		values := t.values(in)
		if len(values) == 0 {
			fmt.Fprintf(&b, "| %s | %s | not measured | |\n", t.what, t.bound)
			continue
		}
		for i, v := range values {
			what, bound := t.what, t.bound
			if i > 0 {
				what, bound = "", ""
			}
			text := v.value
			if v.of != "" {
				text = v.of + ": " + text
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", what, bound, text, map[bool]string{true: "yes", false: "**no**"}[v.met])
		}
	}
	return b.String()
}
