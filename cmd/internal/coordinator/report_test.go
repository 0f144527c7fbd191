package coordinator

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

// seated is a fleet of n VMs in one function of one stripe: vm i reads from
// vm (i-1)/2.
func seated(t testing.TB, n int) (*fleet, []*machine) {
	t.Helper()
	f := newFleet(t, Options{Form: tree.Complete})
	var vms []*machine
	for i := range n {
		m := f.attend(fmt.Sprint("vm", i))
		f.join(m, image, 10)
		vms = append(vms, m)
	}
	return f, vms
}

// pass lets time pass in which all VMs but the dead send heartbeats.
func (f *fleet) pass(d time.Duration, dead ...string) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(75 * time.Millisecond)
	vms:
		for _, m := range f.vms {
			for _, name := range dead {
				if m.name == name {
					continue vms
				}
			}
			f.beat(m)
		}
		f.c.sweep(context.Background(), time.Now())
		f.deliver()
	}
}

func TestReportedVMIsTakenOutAtOnceAndComesBackLast(t *testing.T) {
	for fault := treepb.Report_FAULT_UNREACHABLE; fault <= treepb.Report_FAULT_CORRUPT; fault++ {
		t.Run(fault.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, vms := seated(t, 7)
				f.report(vms[3], image, "vm1", fault)
				if got := vms[3].upstream(image); got == "vm1" {
					t.Errorf("vm3 still reads from %s", got)
				}
				if r := vms[1].refusals[image]; r == nil || r.Again != treepb.Refusal_AGAIN_WAIT {
					t.Errorf("the accused was told %v", r)
				}
				time.Sleep(75 * time.Millisecond)
				f.c.sweep(t.Context(), time.Now())
				f.deliver()
				if got := vms[1].upstream(image); got != "none" {
					t.Error("nothing is heard of it and it has a place")
				}
				f.join(vms[1], image, 10)
				if got := vms[1].upstream(image); got != "none" {
					t.Errorf("it asks and gets a place below %s", got)
				}
				f.pass(150 * time.Millisecond)
				if got := vms[1].upstream(image); got == "none" {
					t.Error("it lives and has no place")
				}
				if p := vms[1].places[image]; len(p.Stripes[0].Downstream) != 0 {
					t.Errorf("it serves %v", p.Stripes[0].Downstream)
				}
				f.check(image, all(vms))
			})
		})
	}
}

func all(vms []*machine, except ...int) map[string]bool {
	in := map[string]bool{}
	for _, m := range vms {
		in[m.name] = true
	}
	for _, i := range except {
		delete(in, vms[i].name)
	}
	return in
}

func TestSlowVMGoesLastAtOnce(t *testing.T) {
	f, vms := seated(t, 7)
	f.report(vms[3], image, "vm1", treepb.Report_FAULT_SLOW)
	if p := vms[1].places[image]; p == nil || len(p.Stripes[0].Downstream) != 0 {
		t.Errorf("place of the slow one: %v", p)
	}
	f.check(image, all(vms))
}

func TestVMThatSeveralReportIsKeptOutLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Options{Form: tree.Complete, Idle: 24 * time.Hour})
		bad := f.attend("bad")
		f.join(bad, image, 10)
		// out is how long bad stays out when one that reads from it reports it.
		reporters := 0
		out := func() time.Duration {
			t.Helper()
			m := f.attend(fmt.Sprint("reporter", reporters))
			reporters++
			f.join(m, image, 0)
			f.report(m, image, bad.name, treepb.Report_FAULT_UNREACHABLE)
			f.leave(m, image)
			began := time.Now()
			for bad.upstream(image) == "none" && time.Since(began) < time.Hour {
				f.pass(75 * time.Millisecond)
			}
			return time.Since(began)
		}
		for i, want := range []time.Duration{0, parole, 2 * parole, 4 * parole, 8 * parole, maxParole, maxParole} {
			if d := out(); d < want || d > want+time.Second {
				t.Errorf("report %d keeps it out for %v, want %v", i, d, want)
			}
		}
		f.pass(2 * maxParole)
		if d := out(); d > time.Second {
			t.Errorf("after a good time a report keeps it out for %v", d)
		}
	})
}

func TestReportsThatDoNothing(t *testing.T) {
	f, vms := seated(t, 7)
	before := f.c.groves[Key{DefaultTenant, image}].epoch()
	for what, r := range map[string]*treepb.Report{
		"about itself":             {Function: image, Vm: "vm3", Fault: treepb.Report_FAULT_CORRUPT},
		"about a stranger":         {Function: image, Vm: "vm6", Fault: treepb.Report_FAULT_CORRUPT},
		"about nobody":             {Function: image, Vm: "nobody", Fault: treepb.Report_FAULT_CORRUPT},
		"about nobody, unnamed":    {Function: image, Fault: treepb.Report_FAULT_CORRUPT},
		"about another function":   {Function: "other", Vm: "vm1", Fault: treepb.Report_FAULT_CORRUPT},
		"about the live, no fault": {Function: "", Vm: "vm1"},
	} {
		f.hear(vms[3], &treepb.FromVM{Message: &treepb.FromVM_Report{Report: r}})
		if now := f.c.groves[Key{DefaultTenant, image}].epoch(); now != before {
			t.Errorf("%s: the tree has changed", what)
		}
	}
}

func TestVMThatReportsEverybodyRunsOutOfCredit(t *testing.T) {
	f, vms := seated(t, 31)
	moved := 0
	for range 20 {
		up := vms[30].upstream(image)
		if up == "origin" {
			break
		}
		before := f.c.groves[Key{DefaultTenant, image}].epoch()
		f.report(vms[30], image, up, treepb.Report_FAULT_UNREACHABLE)
		if f.c.groves[Key{DefaultTenant, image}].epoch() != before {
			moved++
		}
	}
	if moved == 0 || moved > credit {
		t.Errorf("one VM took %d others out", moved)
	}
}

func TestFaultLabelsAreBounded(t *testing.T) {
	reg := prometheus.NewRegistry()
	f := newFleet(t, Options{Form: tree.Complete, Registerer: reg})
	a, b := f.attend("a"), f.attend("b")
	f.join(a, image, 0)
	f.join(b, image, 0)
	for fault := range treepb.Report_Fault(1000) {
		f.report(b, image, "a", fault)
	}
	if n := testutil.CollectAndCount(f.c.metrics.reports); n > len(treepb.Report_Fault_name)+1 {
		t.Errorf("%d series", n)
	}
	if _, err := reg.Gather(); err != nil {
		t.Error(err)
	}
}

func TestCoordinatorThatWasStoppedDoesNotDropTheLiving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, vms := seated(t, 7)
		f.pass(time.Second)
		time.Sleep(10 * time.Second) // nobody is heard, and nobody listens
		f.c.sweep(t.Context(), time.Now())
		f.deliver()
		f.check(image, all(vms))
		f.pass(time.Second, "vm5")
		f.check(image, all(vms, 5))
	})
}
