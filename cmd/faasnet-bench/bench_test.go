package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMedianAndPercentile(t *testing.T) {
	values := []float64{5, 1, 4, 2, 3}
	if m := median(values); m != 3 {
		t.Errorf("median is %v", m)
	}
	if m := median([]int64{4, 2}); m != 3 {
		t.Errorf("median of two is %v", m)
	}
	if p := percentile(values, 0.95); p != 5 {
		t.Errorf("95th percentile is %v", p)
	}
	if p := percentile(values, 0.5); p != 3 {
		t.Errorf("50th percentile is %v", p)
	}
	if m, p := median[float64](nil), percentile[float64](nil, 1); m != 0 || p != 0 {
		t.Errorf("of nothing: %v, %v", m, p)
	}
	if !slices.Equal(values, []float64{5, 1, 4, 2, 3}) {
		t.Error("the values were sorted in place")
	}
}

// Ratios are of pairs within a repetition: a slow repetition of one system
// must not meet a fast one of the other.
func TestRatiosPairWithinARepetition(t *testing.T) {
	rows := []startRow{
		{System: "overlayfs", Rep: 0, Ready: 10, RegistryBytes: 100},
		{System: "faasnet", Rep: 0, Ready: 2, RegistryBytes: 10},
		{System: "overlayfs", Rep: 1, Ready: 30, RegistryBytes: 100},
		{System: "faasnet", Rep: 1, Ready: 3, RegistryBytes: 30},
		{System: "overlayfs", Rep: 2, Ready: 80, RegistryBytes: 100}, // its pair is missing
	}
	sums := sumStarts(rows)
	if len(sums) != 2 || sums[0].System != "overlayfs" || sums[1].System != "faasnet" {
		t.Fatalf("got %+v", sums)
	}
	if s := sums[1]; s.Speedup != 7.5 || s.ByteRatio != 0.2 || s.ReadyMedian != 2.5 || s.ReadyMax != 3 || s.RegistryBytes != 20 {
		t.Errorf("got %+v", s)
	}
	if s := sums[0]; s.Speedup != 1 || s.ReadyMedian != 30 {
		t.Errorf("got %+v", s)
	}
}

func TestConversionsAreSummedUp(t *testing.T) {
	sums := sumConversions([]convertRow{
		{System: "stargz", Rep: 0, Seconds: 40, BytesIn: 100, BytesOut: 110},
		{System: "faasnet", Rep: 0, Seconds: 10, BytesIn: 100, BytesOut: 95},
	})
	if len(sums) != 2 || sums[1].Speedup != 4 || sums[1].Size != 0.95 {
		t.Errorf("got %+v", sums)
	}
}

// Results that could not be kept are not measured.
func TestReportNeedsAPlace(t *testing.T) {
	dir := t.TempDir()
	if _, err := newReport[startRow, startSummary](filepath.Join(dir, "none", "out.json")); err == nil || !strings.Contains(err.Error(), "--json") {
		t.Errorf("a directory that does not exist: %v", err)
	}
	if _, err := newReport[startRow, startSummary](filepath.Join(dir, "out.json")); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%d files before the first row, %v", len(left), err)
	}
}

// What a command does not know it refuses, rather than measure something else,
// and says so with its exit code.
func TestCommandLine(t *testing.T) {
	for args, want := range map[string]string{
		"burst vms 8":                        `burst: unexpected argument "vms"`,
		"start extra":                        `start: unexpected argument "extra"`,
		"figure 14 extra":                    `unexpected argument "extra"`,
		"burts":                              `no command "burts"`,
		"start --image zzz":                  `image "zzz"`,
		"figure 99":                          `no command "99"`,
		"--fast":                             "flag provided but not defined: -fast",
		"burst --tree off --systems faasnet": "no systems",
		"burst --fast":                       "flag provided but not defined: -fast",
		"sim many --vms x":                   `invalid value "x"`,
		"compare --systems kraken":           `no system "kraken"`,
		"figure 14 --systems kraken":         `no system "kraken"`,
		"burst --vms 500 --rate 1kbit":       "500 VMs",
		"convert --systems kraken":           `no system "kraken"`,
		"sim calibrate --rate 1gbit":         "flag provided but not defined: -rate",
		"micro walks":                        `no name "walks"`,
		"relay --protocols pigeon":           `no protocol "pigeon"`,
	} {
		if code, said := runBench(t, args); code != exitUsage || !strings.Contains(said, want) || strings.Count(said, "\n") != 1 {
			t.Errorf("%s: exit code %d, %q, want %s", args, code, said, want)
		}
	}
	for args, want := range map[string]int{"": 0, "--help": 0, "figure": 0, "report --results /nowhere": exitError} {
		if code, said := runBench(t, args); code != want {
			t.Errorf("%s: exit code %d, want %d: %s", args, code, want, said)
		}
	}
}

func runBench(t *testing.T, args string) (code int, said string) {
	t.Helper()
	app := newApp()
	app.Writer, app.ErrWriter = io.Discard, io.Discard
	var stderr strings.Builder
	code = run(t.Context(), app, append([]string{"faasnet-bench"}, strings.Fields(args)...), &stderr)
	return code, stderr.String()
}

func TestReportIsWrittenAfterEachRow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.json")
	r, err := newReport[startRow, startSummary](file)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 2; n++ {
		if err := r.add(startRow{System: "overlayfs", Rep: n, Ready: float64(n)}, sumStarts); err != nil {
			t.Fatal(err)
		}
		p, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Machine map[string]any
			Args    []string
			Rows    []map[string]any
			Summary []map[string]any
		}
		if err := json.Unmarshal(p, &got); err != nil {
			t.Fatal(err)
		}
		if len(got.Rows) != n || len(got.Summary) != 1 || got.Machine["kernel"] == "" {
			t.Errorf("after row %d: %s", n, p)
		}
		for _, field := range strings.Fields("system vms rate image ready_median_s ready_p95_s ready_max_s registry_bytes peer_bytes cpu_s") {
			if _, ok := got.Summary[0][field]; !ok {
				t.Errorf("the summary has no %s", field)
			}
		}
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
		t.Errorf("%d files, %v", len(left), err)
	}
}

func TestRelaysAreSummedUp(t *testing.T) {
	sums := sumRelays([]relayRow{
		{Protocol: "http", Rate: "1gbit", Relayed: 1 << 30, Seconds: 10, CPU: 4},
		{Protocol: "faasnet", Rate: "1gbit", Relayed: 1 << 30, Seconds: 9, CPU: 2, Alone: 1},
		{Protocol: "faasnet", Rate: "1gbit", Relayed: 1 << 30, Seconds: 11, CPU: 3, Alone: 1},
	})
	if len(sums) != 2 || sums[1].CPUPerGiB != 2.5 || sums[1].Passing != 1.5 || sums[0].CPUPerGiB != 4 || sums[0].OfLink < 0.85 || sums[0].OfLink > 0.86 {
		t.Errorf("got %+v", sums)
	}
}

// A run goes on where one of the same program on the same machine ended.
func TestReportIsResumed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.json")
	made := func() *report[burstRow, burstSummary] {
		t.Helper()
		r, err := newReport[burstRow, burstSummary](file)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := made()
	if err := r.resume(); err != nil || len(r.Rows) != 0 {
		t.Errorf("without a file: %v", err)
	}
	row := burstOf(3, 1, 100, kill{who: "root", fault: "stop", at: 1500 * time.Millisecond}, 0, 2)
	if err := r.add(row, sumBursts); err != nil {
		t.Fatal(err)
	}
	if r = made(); r.resume() != nil || len(r.Rows) != 1 || r.Rows[0].burstPlan != row.burstPlan || r.Rows[0].Rep != 1 {
		t.Errorf("got %+v", r.Rows)
	}
	r.Machine.CPUs++
	if err := r.resume(); err == nil || !strings.Contains(err.Error(), "another machine") {
		t.Errorf("on another machine: %v", err)
	}
	if r = made(); os.WriteFile(file, []byte("{"), 0o644) != nil || r.resume() == nil {
		t.Error("a torn file is no error")
	}
	r.file = ""
	if r.resume() == nil {
		t.Error("resumed without a file")
	}
}
