package main

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/script/lab"
)

func plansOf(t *testing.T, args ...string) ([]burstPlan, error) {
	t.Helper()
	var plan []burstPlan
	command := burstCommand()
	command.Action = func(c *cli.Context) error {
		b, err := burstsOf(c)
		if err == nil {
			plan = b.plan
		}
		return err
	}
	app := &cli.App{Commands: []*cli.Command{command}, ExitErrHandler: func(*cli.Context, error) {}}
	return plan, app.Run(append([]string{"bench", "burst"}, args...))
}

// Systems are innermost, and what has no tree is not measured for each form.
func TestPlanOfABurst(t *testing.T) {
	plan, err := plansOf(t, "--vms", "1", "--vms", "4", "--rate", "50mbit", "--stripes", "1", "--stripes", "2", "--form", "rotate",
		"--kill", "none", "--kill", "root:stop@1s", "--systems", "overlayfs", "--systems", "faasnet")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range plan {
		got = append(got, p.String())
	}
	var want []string
	for _, fault := range []string{"", ", root:stop@1s"} {
		for _, vms := range []string{"1 VMs", "4 VMs"} {
			for _, system := range []string{"overlayfs", "faasnet, rotate", "faasnet, striped"} {
				want = append(want, vms+", "+system+fault)
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if plan, err := plansOf(t, "--tree", "off"); err != nil || len(plan) != 1 || plan[0].System != "faasnet-notree" || plan[0].Stripes != 0 {
		t.Errorf("without a tree: %+v, %v", plan, err)
	}
}

func TestPlanRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--vms 500 --rate 1kbit":  "500 VMs",
		"--vms 64 --rate 1gbit":   "Mbit/s",
		"--rate fast":             `rate "fast"`,
		"--rate 5mbps":            `rate "5mbps"`,
		"--registry-rate -1mbit":  "rate",
		"--systems kraken":        `no system "kraken"`,
		"--stripes 3":             "--stripes 3",
		"--image zzz":             `image "zzz"`,
		"--stripes 1 --form star": `"star"`,
		"--kill root":             "WHO:HOW@WHEN",
		"--kill root:kill@soon":   "WHO:HOW@WHEN",
		"--kill king:kill@1s":     `"king"`,
		"--kill leaf:flood@1s":    `"flood"`,
		"--background maybe":      "neither on nor off",
	} {
		if _, err := plansOf(t, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

func TestRates(t *testing.T) {
	for text, want := range map[string]float64{"200mbit": 200e6, "1.5gbit": 1.5e9, "800kbit": 8e5, "9bit": 9} {
		if got, err := parseRate(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

func TestWhoIsStruck(t *testing.T) {
	one := []lab.Node{ // a binary tree of seven
		{VM: "r", Upstreams: []string{""}}, {VM: "a", Upstreams: []string{"r"}}, {VM: "b", Upstreams: []string{"r"}},
		{VM: "c", Upstreams: []string{"a"}}, {VM: "d", Upstreams: []string{"a"}}, {VM: "e", Upstreams: []string{"b"}},
	}
	two := []lab.Node{ // r inner in the first tree, s in the second
		{VM: "r", Upstreams: []string{"", "s"}}, {VM: "s", Upstreams: []string{"r", ""}}, {VM: "x", Upstreams: []string{"r", "s"}},
	}
	for _, c := range []struct {
		nodes []lab.Node
		who   string
		want  string
	}{
		{one, "root", "r"}, {one, "inner", "a"}, {one, "leaf", "c"}, {one[:1], "inner", ""}, {one[:1], "leaf", ""},
		{two, "root", "r"}, {two, "inner", "s"}, {two, "leaf", "x"}, {nil, "root", ""},
	} {
		if got := pick(c.nodes, c.who); got != c.want {
			t.Errorf("%s of %v: %q, want %q", c.who, c.nodes, got, c.want)
		}
	}
}

func burstOf(vms, rep int, registry int64, k kill, times ...float64) burstRow {
	r := burstRow{burstPlan: burstPlan{System: "faasnet", VMs: vms, Kill: k}, Rep: rep, RegistryBytes: registry}
	for i, s := range times {
		vm := burstVM{VM: string(rune('a' + i)), Ready: s, PeerBytes: 10, CPU: 1, failedReads: 1}
		if s == 0 {
			vm.Error = "broken"
		}
		r.PerVM = append(r.PerVM, vm)
	}
	if k != (kill{}) {
		r.Struck = "a"
	}
	r.total()
	return r
}

// Ratios are of bursts of one repetition; who was struck does not count, who
// failed otherwise does.
func TestBurstsAreSummedUp(t *testing.T) {
	k := kill{who: "root", fault: lab.Kill, at: time.Second}
	sums := sumBursts([]burstRow{
		burstOf(1, 0, 100, kill{}, 10), burstOf(3, 0, 120, kill{}, 20, 0, 30), burstOf(3, 0, 200, k, 0, 40, 42),
		burstOf(1, 1, 50, kill{}, 1), burstOf(3, 1, 100, kill{}, 4, 5, 6),
	})
	if len(sums) != 3 {
		t.Fatalf("got %+v", sums)
	}
	if s := sums[1]; s.ReadyMedian != 6 || s.ReadyMax != 30 || s.FailedVMs != 1 || s.OverOne != 3.75 || s.EgressOverOne != 1.6 || s.PeerBytes != 30 || s.CPU != 3 {
		t.Errorf("got %+v", s)
	}
	if s := sums[2]; s.Added == nil || *s.Added != 12 || sums[1].Added != nil || s.ReadyMedian != 41 || s.FailedVMs != 0 || s.FailedReads != 2 || s.OverOne != 4.1 {
		t.Errorf("got %+v", s)
	}
	p, err := json.Marshal(sums[2])
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range strings.Fields("system vms rate image ready_median_s ready_p95_s ready_max_s registry_bytes peer_bytes cpu_s") {
		if !strings.Contains(string(p), `"`+field+`":`) {
			t.Errorf("the summary has no %s", field)
		}
	}
	var back burstSummary
	if err := json.Unmarshal(p, &back); err != nil || !reflect.DeepEqual(back, sums[2]) {
		t.Errorf("%s gives %+v, %v", p, back, err)
	}
}
