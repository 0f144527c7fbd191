package coordinator

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

// churn is random events over a fleet beside a model of who is where.
type churn struct {
	*fleet
	rand      *rand.Rand
	names     []string
	functions []string
	alive     map[string]bool            // has a stream and sends heartbeats
	in        map[string]map[string]bool // who has a place, by function
	out       map[string]map[string]bool // who waits until it is heard again
	events    map[string]int
}

func newChurn(t testing.TB, form tree.Form, seed uint64) *churn {
	t.Helper()
	c := &churn{
		fleet: newFleet(t, Options{Form: form}), rand: rand.New(rand.NewPCG(seed, 0)),
		alive: map[string]bool{}, in: map[string]map[string]bool{}, out: map[string]map[string]bool{}, events: map[string]int{},
	}
	for i := range 200 {
		c.names = append(c.names, fmt.Sprintf("vm%03d", i))
	}
	for i := range 5 {
		f := fmt.Sprint("f", i)
		c.functions = append(c.functions, f)
		c.in[f], c.out[f] = map[string]bool{}, map[string]bool{}
	}
	return c
}

// step makes one event happen.
func (c *churn) step() {
	name, f := c.names[c.rand.IntN(len(c.names))], c.functions[c.rand.IntN(len(c.functions))]
	m, alive := c.vms[name], c.alive[name]
	note := func(event string) { c.events[event]++ }
	switch r := c.rand.IntN(100); {
	case !alive || r < 3:
		if alive {
			note("stream lost")
			c.c.lost(m.session)
			c.gone(name)
		}
		m = c.attend(name)
		c.alive[name] = true
		c.join(m, f, c.rand.Uint64N(1000))
		c.in[f][name] = true
		note("attend and join")
	case r < 45:
		c.join(m, f, c.rand.Uint64N(1000))
		if !c.in[f][name] && !c.out[f][name] {
			note("join")
			c.in[f][name] = true
		} else {
			note("join again")
		}
	case r < 70:
		note("leave")
		c.leave(m, f)
		delete(c.in[f], name)
		delete(c.out[f], name)
	case r < 90:
		c.accuse(m, f, note)
	case r < 95:
		note("silence")
		c.alive[name] = false
		c.pass(time.Second)
	default:
		note("time")
		c.pass(300 * time.Millisecond)
	}
}

// accuse lets m report somebody whom it reads from.
func (c *churn) accuse(m *machine, f string, note func(string)) {
	up := m.upstream(f)
	if !c.in[f][m.name] || up == "origin" {
		note("report nobody")
		c.report(m, f, m.name, treepb.Report_FAULT_SILENT)
		return
	}
	fault := treepb.Report_Fault(1 + c.rand.IntN(4))
	tokens := m.credit.TokensAt(time.Now())
	c.report(m, f, up, fault)
	switch {
	case tokens < 1:
		note("report without credit")
	case fault == treepb.Report_FAULT_SLOW:
		note("report slow")
	default:
		note("report")
		delete(c.in[f], up)
		c.out[f][up] = true
	}
}

// pass lets time pass in which those that live send heartbeats.
func (c *churn) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(150 * time.Millisecond)
		for name, alive := range c.alive {
			if alive {
				c.beat(c.vms[name])
			}
		}
		c.c.sweep(context.Background(), time.Now())
		c.deliver()
	}
	for name, alive := range c.alive {
		if !alive {
			c.gone(name)
		}
	}
	for _, f := range c.functions {
		for name := range c.out[f] {
			if at := c.c.groves[Key{DefaultTenant, f}].seats[tree.VM(name)]; at.suspended.IsZero() {
				delete(c.out[f], name)
				c.in[f][name] = true
			} else if time.Now().After(at.until.Add(100 * time.Millisecond)) {
				c.t.Fatalf("%s is still out of %s", name, f)
			}
		}
	}
}

func (c *churn) gone(name string) {
	delete(c.alive, name)
	clear(c.vms[name].places)
	for _, f := range c.functions {
		delete(c.in[f], name)
		delete(c.out[f], name)
	}
}

// state tells apart what check has to look at.
func (c *churn) state(f string) string {
	g := c.c.groves[Key{DefaultTenant, f}]
	if g == nil {
		return fmt.Sprint(len(c.in[f]))
	}
	return fmt.Sprint(g.epoch(), len(g.seats), len(c.in[f]), len(c.out[f]))
}

func TestCO01_RandomEventsKeepEveryTreeSound(t *testing.T) {
	for form, events := range map[tree.Form]int{tree.Striped: 20_000, tree.Complete: 4000, tree.Rotate: 4000} {
		t.Run(fmt.Sprint("CO-01 ", form), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newChurn(t, form, 1)
				checked := map[string]string{} // what is as it was is as sound as it was
				for i := range events {
					c.step()
					for _, f := range c.functions {
						if now := c.state(f); checked[f] != now || i%100 == 0 {
							c.check(f, c.in[f])
							checked[f] = now
						}
					}
				}
				t.Log(c.events)
			})
		})
	}
}
