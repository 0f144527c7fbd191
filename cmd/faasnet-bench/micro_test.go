package main

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/micro"
)

func microOf(name, system, state string, rep int, value, cpu float64) microRow {
	return microRow{microPlan: microPlan{Name: name, System: system, State: state}, Rep: rep, Value: value, CPU: cpu, Unit: seconds}
}

// Each state of ours is compared with what others have in its place, within one
// repetition, and judged by its target.
func TestMicrosAreSummedUp(t *testing.T) {
	sums := map[microPlan]microSummary{}
	for _, s := range sumMicros([]microRow{
		microOf("walk", native, "cold", 0, 2, 1), microOf("walk", native, "warm", 0, 1, 1),
		microOf("walk", ours, "cold", 0, 1, 3), microOf("walk", ours, "warm", 0, 1.2, 1), microOf("walk", ours, "registry", 0, 4, 1),
		microOf("walk", rival, "cold", 0, 6, 1), microOf("walk", rival, "warm", 0, 6, 1), microOf("walk", rival, "registry", 0, 8, 1),
		microOf("walk", native, "cold", 1, 40, 1), // its pairs are missing
	}) {
		sums[s.microPlan] = s
	}
	of := func(system, state string) microSummary {
		return sums[microPlan{Name: "walk", System: system, State: state}]
	}
	if s := of(ours, "cold"); s.OverNative != 0.5 || s.CPUNative != 3 || s.RivalOver != 6 || !s.Met || s.Target == "" {
		t.Errorf("cold: %+v", s)
	}
	if s := of(ours, "warm"); s.OverNative != 1.2 || s.Met || !strings.Contains(s.Target, "1.1") {
		t.Errorf("warm: %+v", s)
	}
	if s := of(ours, "registry"); s.OverNative != 2 || s.RivalOver != 2 || s.Target != "" {
		t.Errorf("registry: %+v", s)
	}
	if s := of(native, "cold"); s.Median != 21 || s.Reps != 2 || s.OverNative != 0 || s.Target != "" {
		t.Errorf("native: %+v", s)
	}
	if s := of(rival, "cold"); s.OverNative != 3 {
		t.Errorf("rival: %+v", s)
	}
}

func TestMemoryTarget(t *testing.T) {
	for value, met := range map[float64]bool{90: true, 110: false} {
		r := microRow{microPlan: microPlan{Name: "rss", System: ours, State: "lazy", Size: targetFunctions * targetLayers}, Value: value, Unit: "MiB"}
		if s := sumMicros([]microRow{r})[0]; s.Met != met || s.Target != "<= 100" {
			t.Errorf("%v MiB: %+v", value, s)
		}
	}
}

// Names are the works' and no name comes twice.
func TestMicroNames(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range microNames() {
		if seen[name] {
			t.Errorf("%s comes twice", name)
		}
		seen[name] = true
	}
	for _, w := range micro.Works() {
		if !seen[w.Name] {
			t.Errorf("%s is missing", w.Name)
		}
	}
	m := micros{}
	if err := m.measure(t.Context(), []string{"sleep"}, "", false); err == nil || !strings.Contains(err.Error(), "walk") {
		t.Errorf("an unknown name: %v", err)
	}
	m.systems = []string{"nfs"}
	if err := m.measure(t.Context(), nil, "", false); err == nil {
		t.Error("an unknown system is no error")
	}
}

// A worker does one work after the other, and ends at the first that fails.
func TestWorksAreServed(t *testing.T) {
	root := t.TempDir()
	var out strings.Builder
	in := "walk " + root + "\nwalk " + root + "\nwalk " + root + "/none\nwalk " + root + "\n"
	if err := serveWorks(t.Context(), strings.NewReader(in), &out); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("a directory that is not there: %v", err)
	}
	var all []micro.Done
	for dec := json.NewDecoder(strings.NewReader(out.String())); dec.More(); {
		var d micro.Done
		if err := dec.Decode(&d); err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	if len(all) != 2 || all[1].Items != 1 {
		t.Errorf("did %+v", all)
	}
	if err := serveWorks(t.Context(), strings.NewReader("sleep /\n"), io.Discard); err == nil {
		t.Error("an unknown work is no error")
	}
}

func TestMemoryOfAProcess(t *testing.T) {
	f, err := memoryOf(os.Getpid())
	if err != nil || f["VmRSS"] <= 0 || f["VmHWM"] < f["RssAnon"] {
		t.Errorf("got %v, %v", f, err)
	}
}
