package results

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A reason whose heading no figure can have is never printed, and would go on
// saying what nobody checks.
func TestReasonsAreOfFigures(t *testing.T) {
	var kinds []string
	for _, m := range measures() {
		for _, system := range []string{"overlayfs", "erofs", "stargz", "stargz-nobg", "soci"} {
			kinds = append(kinds, m.key+"/"+system+"/recorded")
		}
	}
	for _, figure := range []string{"cpu", "passing", "stored", "read"} {
		kinds = append(kinds, "relay/"+figure+"/http", "relay/"+figure+"/grpc")
	}
	for _, figure := range []string{"seconds", "cpu", "size"} {
		kinds = append(kinds, "convert/"+figure+"/stargz")
	}
	for _, other := range []string{"native", "stargz"} {
		for _, state := range []string{"cold", "warm", "lazy-cold", "lazy-warm", "blocks", "registry"} {
			for _, name := range []string{"walk", "seq", "rand", "exec", "mmap", "import"} {
				kinds = append(kinds, "micro/"+other+"/"+state+"/"+name)
			}
		}
	}
	if len(reasons()) == 0 {
		t.Error("no reasons")
	}
	for key, text := range reasons() {
		if !slices.ContainsFunc(kinds, func(k string) bool { return k == key || strings.HasPrefix(k, key+"/") }) {
			t.Errorf("%q is no figure that is compared", key)
		}
		if text == "" {
			t.Errorf("%q says nothing", key)
		}
	}
}

func rowOf(t *testing.T, text string) (r Row) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// Only what was lost is explained, once, with all that it explains; what has no
// reason is told.
func TestOnlyLossesAreExplained(t *testing.T) {
	const row = `{"system": %q, "vms": 8, "ready_median_s": %v, "peak_memory_bytes": %v, "disk_bytes": %v, "recorded": %v}`
	in := Input{Bursts: []Bursts{{Image: "b", Rate: "25mbit", Rows: []Row{
		rowOf(t, fmt.Sprintf(row, "overlayfs", 100, 70e6, 900e6, false)),
		rowOf(t, fmt.Sprintf(row, "erofs", 90, 71e6, 900e6, false)),
		rowOf(t, fmt.Sprintf(row, "stargz-nobg", 3, 90e6, 150e6, false)),
		rowOf(t, fmt.Sprintf(row, "faasnet", 4, 90e6, 200e6, false)),
		rowOf(t, fmt.Sprintf(row, "faasnet", 2, 90e6, 151e6, true)),
		rowOf(t, fmt.Sprintf(row, "floor", 1, 1e6, 1e6, false)),
	}}}}
	text, unexplained := in.explain()
	if !slices.Equal(unexplained, []string{"ready/stargz-nobg"}) {
		t.Errorf("unexplained are %q", unexplained)
	}
	for part, want := range map[string]int{
		"* peak memory of daemons, erofs; peak memory of daemons, overlayfs: Ours is containerd and a daemon": 1,
		"* disk, stargz-nobg: A VM keeps blocks":              1,
		"| image b, 25 Mbit/s, 8 VMs | disk, stargz-nobg |":   1,
		"8 VMs, recorded | peak memory of daemons, overlayfs": 1,
		"8 VMs, recorded | median":                            0,
		"8 VMs, recorded | disk":                              0,
		"\n* ":                                                3,
		"floor":                                               0,
	} {
		if got := strings.Count(text, part); got != want {
			t.Errorf("%q is there %d times, not %d:\n%s", part, got, want, text)
		}
	}
	if text, unexplained := (Input{}).explain(); strings.Contains(text, "* ") || len(unexplained) > 0 {
		t.Errorf("of nothing: %s", text)
	}
}
