package results

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Document is docs/benchmarks.md. Unexplained are the losses for which why.md
// has no text.
func Document(in Input, plots string) (text string, unexplained []string) {
	d := &document{in: in, dir: plots}
	d.print("# Benchmarks\n\nWritten by `faasnet-bench report` out of what the commands below have measured; do not edit. How the lab works, and what its figures mean: [bench.md](bench.md).\n")
	d.section("The machine", d.machines())
	d.section("Targets", in.judge())
	d.bursts()
	d.figures()
	d.tables()
	losses, unexplained := in.explain()
	d.section("Where others are better, and why", losses)
	d.section("What was not measured", d.missing())
	d.section("Commands", d.commands())
	return d.text.String(), unexplained
}

type document struct {
	in   Input
	dir  string // of the plots, beside the document
	text strings.Builder
}

func (d *document) print(format string, args ...any) { fmt.Fprintf(&d.text, format, args...) }

func (d *document) section(head, text string) {
	if text != "" {
		d.print("\n## %s\n\n%s", head, text)
	}
}

// plotsOf links the drawings of a command.
func (d *document) plotsOf(command string) {
	for _, p := range d.in.Plots {
		if p.Command == command {
			d.print("\n![%s](%s/%s.svg)\n", p.title(), d.dir, p.Name)
		}
	}
}

func (p Plot) title() string {
	if p.Figure.Title != "" {
		return p.Figure.Title
	}
	return p.Name
}

// machines tells where the figures are from; of programs all that measured.
func (d *document) machines() string {
	var revisions []string
	versions := map[string][]string{}
	add := func(what, version string) {
		if version != "" && !slices.Contains(versions[what], version) {
			versions[what] = append(versions[what], version)
		}
	}
	var b strings.Builder
	for _, f := range d.in.Files {
		m := f.Machine
		add("machine", fmt.Sprintf("%d x %s, %.1f GB", m.CPUs, m.CPU, float64(m.MemoryMB)*(1<<20)/1e9))
		add("kernel", m.Kernel)
		add("Go", m.Go)
		add("TCP", m.TCP)
		for name, v := range m.Versions {
			add(name, v)
		}
		if r := short(m.Revision); !slices.Contains(revisions, r) {
			revisions = append(revisions, r)
		}
	}
	first := []string{"machine", "kernel", "TCP", "Go"}
	rest := slices.DeleteFunc(slices.Sorted(maps.Keys(versions)), func(k string) bool { return slices.Contains(first, k) })
	b.WriteString("| | |\n| --- | --- |\n")
	for _, k := range append(first, rest...) {
		if len(versions[k]) > 0 {
			fmt.Fprintf(&b, "| %s | %s |\n", k, strings.Join(versions[k], "; "))
		}
	}
	fmt.Fprintf(&b, "| FaaSNet | %s |\n", strings.Join(revisions, ", "))
	return b.String()
}

func short(revision string) string {
	const enough = 12
	return revision[:min(len(revision), enough)]
}

func system() column { return column{"system", Row.name} }

// burstColumns are those of bursts and comparisons.
func burstColumns() []column {
	return []column{
		system(), {"trees", func(r Row) string {
			if r.Int("stripes") == 0 {
				return ""
			}
			return fmt.Sprintf("%d, %s", r.Int("stripes"), r.Str("form"))
		}},
		text("VMs", "vms"), text("reps", "reps"), num("READY s", "ready_median_s", 2, 1), num("p95", "ready_p95_s", 2, 1), num("max", "ready_max_s", 2, 1),
		times("of ours", "ready_over_faasnet"), times("of ours, recorded", "ready_over_recorded"), times("of 1 VM", "ready_over_one_vm"), num("registry MB", "registry_bytes", 1, mega), times("of 1 VM", "registry_bytes_over_one_vm"),
		num("MB a VM", "received_bytes", 1, mega), num("CPU s", "cpu_s", 1, 1), times("of ours", "cpu_over_faasnet"),
		num("peak memory MB", "peak_memory_bytes", 0, mega), num("disk MB", "disk_bytes", 0, mega), text("failed VMs", "failed_vms"),
	}
}

// faultColumns are those of bursts in which a VM is struck.
func faultColumns() []column {
	return []column{
		system(), text("form", "form"), {"fault", func(r Row) string {
			if s := r.Str("kill"); s != "" {
				return s
			}
			return "none"
		}},
		text("VMs", "vms"), text("reps", "reps"), num("READY s", "ready_median_s", 2, 1), num("max", "ready_max_s", 2, 1),
		{"added s", func(r Row) string {
			if !r.Has("added_s") {
				return ""
			}
			return fmt.Sprintf("%+.2f", r.Num("added_s"))
		}},
		text("re-parented", "reparented"), text("failed VMs", "failed_vms"), text("failed reads", "failed_reads"),
	}
}

// fullColumns are those of whole images.
func fullColumns() []column {
	return []column{
		system(), text("form", "form"), text("VMs", "vms"), text("reps", "reps"), num("complete s", "ready_median_s", 2, 1), num("last s", "ready_max_s", 2, 1),
		times("of the link's bound", "over_bound"), num("registry MB", "registry_bytes", 1, mega), num("between VMs MB", "peer_bytes", 1, mega), num("CPU s", "cpu_s", 1, 1),
	}
}

// bursts writes the three kinds of bursts.
func (d *document) bursts() {
	kind := func(head, about string, columns []column, is func(Bursts) bool) {
		first := true
		for _, b := range d.in.Bursts {
			if !is(b) {
				continue
			}
			if first {
				d.section(head, about)
				first = false
			}
			d.print("\n### Image %s, links of %s%s\n\n%s", b.Image, rate(b.Rate), registry(b), table(columns, b.Rows))
			d.print("%s", b.fallbacks())
			for _, p := range b.plots() {
				d.print("\n![%s](%s/%s.svg)\n", p.Figure.Title, d.dir, p.Name)
			}
		}
	}
	kind("Many VMs at once", "All VMs pull and start a function at the same moment; READY counts from then. Figures are medians over repetitions, times over the VMs of all of them; \"of ours\" is how often\nour figure goes into the system's, within repetitions. Bytes, CPU seconds are of all VMs together, memory and disk of one.\n"+d.in.aboutRecorded(),
		burstColumns(), func(b Bursts) bool { return !b.Full && !b.Faults })
	kind("Whole images", "Every file of the image is read on each VM. The bound is how long one link takes for the image's layers.\n", fullColumns(), func(b Bursts) bool { return b.Full && !b.Faults })
	kind("Faults", "A VM is struck in the middle of the burst; figures are those of the others, and added is by how much the last of them is later than in the same burst without a fault.\n",
		faultColumns(), func(b Bursts) bool { return b.Faults })
}

// aboutRecorded says what recorded rows are compared with, where there are any.
func (in Input) aboutRecorded() string {
	if !slices.ContainsFunc(in.plain(), func(b Bursts) bool {
		return slices.ContainsFunc(b.Rows, func(r Row) bool { return r.Str("recorded") == "true" })
	}) {
		return ""
	}
	return "\nImages of stargz are optimized by a recorded run of the function; `faasnet, recorded` is the row that is like them, whose image has a start layer made from one run. `faasnet` is a\nconversion that knows nothing of the function.\n"
}

func registry(b Bursts) string {
	if b.RegistryRate == b.Rate || b.RegistryRate == "" {
		return ""
	}
	return ", the registry's " + rate(b.RegistryRate)
}

// rate writes "25mbit" as people do.
func rate(tc string) string {
	for unit, name := range map[string]string{"kbit": " kbit/s", "mbit": " Mbit/s", "gbit": " Gbit/s"} {
		if n, ok := strings.CutSuffix(tc, unit); ok {
			return n + name
		}
	}
	return tc
}

// figures writes the paper's figures, real ones and those in virtual time.
func (d *document) figures() {
	heads := map[string]string{
		"figure 14": "Figure 14: concurrent starts", "figure 15": "Figure 15: timeline of a burst", "figure 16": "Figure 16: bandwidth of one inner VM",
		"figure 18": "Figure 18: several functions a VM", "figure 20": "Figure 20: block size and bytes",
		"sim scaling": "Figure 14 in virtual time: concurrent starts beyond this machine", "sim timeline": "Figure 15 in virtual time: timeline of a burst",
		"sim trace":     "Figures 11 to 13 in virtual time: traces",
		"sim calibrate": "The virtual time beside the real one",
		"sim many":      "Figure 17 in virtual time: 2,500 functions on 1,000 VMs",
	}
	first := true
	for _, command := range d.commandsOf("figure", "sim") {
		if first {
			d.section("The paper's figures", "Rows that begin with \"paper\" are what the paper says of its own VMs, images and network; those in virtual time run the same code over a network in memory.\n")
			first = false
		}
		head, ok := heads[command]
		if !ok {
			head = command
		}
		d.print("\n### %s\n\n%s", head, generic(d.in.summary(command)))
		d.plotsOf(command)
	}
}

// commandsOf are the commands of one of these kinds that measured.
func (d *document) commandsOf(kinds ...string) (all []string) {
	for _, kind := range kinds {
		for _, f := range d.in.Files {
			if c := f.Command(); strings.HasPrefix(c, kind+" ") && !slices.Contains(all, c) {
				all = append(all, c)
			}
		}
	}
	return all
}

// tables writes what the other commands measured.
func (d *document) tables() {
	d.rows("relay", "The relay", "One VM reads blocks from another one, reads its layer and gives the blocks to two more. CPU seconds are those of that VM; `passing` is what it spends beyond reading for itself.\n", []column{
		text("protocol", "protocol"), text("link", "rate"), num("Mbit/s relayed", "relayed_bits_s", 0, mega),
		{"of the link", func(r Row) string { return percent(r.Num("of_link")) }}, num("CPU s a GiB", "cpu_s_per_gib", 2, 1), num("passing, CPU s a GiB", "passing_cpu_s_per_gib", 2, 1), num("own reading s", "read_s", 2, 1),
		num("serving stored blocks, CPU s a GiB", "stored_cpu_s_per_gib", 2, 1),
	})
	d.rows("micro", "Parts", "States are explained by `faasnet-bench micro --help`.\n", []column{
		text("part", "name"), system(), text("state", "state"), text("size", "size"), text("reps", "reps"),
		{"median", func(r Row) string { return fmt.Sprintf("%.4g", r.Num("median")) }}, {"min", func(r Row) string { return fmt.Sprintf("%.4g", r.Num("min")) }},
		{"max", func(r Row) string { return fmt.Sprintf("%.4g", r.Num("max")) }}, text("unit", "unit"),
		times("of overlayfs", "over_native"), times("CPU of overlayfs", "cpu_over_native"), times("stargz of it", "stargz_over"),
	})
	d.rows("convert", "Conversion", "The same gzip layers, converted from and to one containerd.\n", []column{
		system(), text("image", "image"), num("seconds", "seconds", 1, 1), num("CPU s", "cpu_s", 1, 1), num("MB in", "bytes_in", 1, mega), num("MB out", "bytes_out", 1, mega),
		num("size", "size_ratio", 3, 1), times("speed", "speedup_over_stargz"),
	})
	d.rows("start", "One start", "From the pull until READY, on an empty VM.\n", []column{
		system(), text("image", "image"), text("link", "rate"), num("READY s", "ready_median_s", 2, 1), num("p95", "ready_p95_s", 2, 1), num("MB fetched", "registry_bytes", 1, mega),
		num("CPU s", "cpu_s", 2, 1), times("faster than a full pull", "speedup_over_overlayfs"),
	})
}

func (d *document) rows(command, head, about string, columns []column) {
	if rows := d.in.summary(command); len(rows) > 0 {
		d.section(head, about+"\n"+table(columns, rows))
		d.plotsOf(command)
	}
}

// missing says which commands have not measured anything.
func (d *document) missing() string {
	var b strings.Builder
	for _, want := range []string{"compare", "burst", "relay", "micro", "convert", "figure 14", "figure 15", "figure 16", "figure 18", "figure 20", "sim scaling", "sim timeline", "sim many", "sim trace", "sim calibrate"} {
		if len(of(d.in.Files, want)) == 0 {
			fmt.Fprintf(&b, "* `faasnet-bench %s`\n", want)
		}
	}
	for _, kind := range []struct {
		what string
		is   func(Bursts) bool
	}{{"whole images (`faasnet-bench burst --full`)", func(b Bursts) bool { return b.Full }}, {"faults (`faasnet-bench burst --kill`)", func(b Bursts) bool { return b.Faults }}} {
		if !slices.ContainsFunc(d.in.Bursts, kind.is) {
			fmt.Fprintf(&b, "* %s\n", kind.what)
		}
	}
	if b.Len() == 0 {
		return "Nothing of what this document knows.\n"
	}
	return b.String()
}

func (d *document) commands() string {
	var b strings.Builder
	b.WriteString("```console\n")
	for _, f := range d.in.Files {
		fmt.Fprintf(&b, "$ %s\n", f.Line())
	}
	b.WriteString("```\n")
	return b.String()
}
