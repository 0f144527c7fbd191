package coordinator

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/faasnet/faasnet/treeclient/treepb"
)

// BenchmarkJoin is what a join costs under the lock and in making the news,
// signatures left out, in a tree of that many VMs.
func BenchmarkJoin(b *testing.B) {
	for _, n := range []int{100, 2500, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			f := newFleet(b, Options{})
			var sessions []*session
			attend := func(i int) *session {
				s, err := f.c.greet(&treepb.Hello{Protocol: 1, Vm: fmt.Sprint("vm", i), Address: "10.0.0.1:7000"}, "", func(error) {})
				if err != nil {
					b.Fatal(err)
				}
				return s
			}
			msg := &treepb.FromVM{Message: &treepb.FromVM_Join{Join: &treepb.Join{Function: image}}}
			for i := range n {
				s := attend(i)
				f.c.hear(b.Context(), s, msg)
				sessions = append(sessions, s)
			}
			for _, s := range sessions {
				f.c.news(s)
			}
			i := n
			for b.Loop() {
				s := attend(i)
				i++
				f.c.hear(b.Context(), s, msg)
				f.c.news(s)
				b.StopTimer()
				f.c.lost(s)
				b.StartTimer()
			}
		})
	}
}

// BenchmarkRootDies is what the death of the root costs under the lock: all
// VMs below it have other ancestors.
func BenchmarkRootDies(b *testing.B) {
	for _, n := range []int{2500, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			f := newFleet(b, Options{})
			sessions := map[string]*session{}
			msg := &treepb.FromVM{Message: &treepb.FromVM_Join{Join: &treepb.Join{Function: image}}}
			attend := func(name string) {
				s, err := f.c.greet(&treepb.Hello{Protocol: 1, Vm: name, Address: "10.0.0.1:7000"}, "", func(error) {})
				if err != nil {
					b.Fatal(err)
				}
				f.c.hear(b.Context(), s, msg)
				sessions[name] = s
			}
			for i := range n {
				attend(fmt.Sprint("vm", i))
			}
			g := f.c.groves[Key{DefaultTenant, image}]
			for b.Loop() {
				root := string(g.tree.Root(0))
				f.c.lost(sessions[root])
				b.StopTimer()
				attend(root)
				for _, s := range sessions {
					f.c.news(s)
				}
				b.StartTimer()
			}
		})
	}
}

// BenchmarkBurst2500 is 2,500 VMs that join one function at once over real
// streams, until all know their last place.
func BenchmarkBurst2500(b *testing.B) {
	const n = 2500
	for b.Loop() {
		b.StopTimer()
		cr := newCrowd(b, 250, Options{})
		ctx, cancel := context.WithCancel(b.Context())
		vms := make([]*attendee, n)
		for i := range vms {
			a, err := cr.attend(ctx, i)
			if err != nil {
				b.Fatal(err)
			}
			go a.read()
			vms[i] = a
		}
		b.StartTimer()
		began := time.Now()
		took := make([]time.Duration, n)
		var wg sync.WaitGroup
		for i, a := range vms {
			wg.Go(func() {
				if err := a.join(image); err != nil {
					b.Error(err)
				}
				took[i] = (<-a.first).Sub(began)
			})
		}
		wg.Wait()
		b.ReportMetric(float64(percentile(took, 99).Milliseconds()), "p99-ms")
		cr.settled(image, vms, n)
		cancel()
	}
}

// BenchmarkTree is what GetTree and the journal pay for 2,500 VMs.
func BenchmarkTree(b *testing.B) {
	f := newFleet(b, Options{})
	for i := range 2500 {
		s, err := f.c.greet(&treepb.Hello{Protocol: 1, Vm: fmt.Sprint("vm", i), Address: "10.0.0.1:7000"}, "", func(error) {})
		if err != nil {
			b.Fatal(err)
		}
		f.c.hear(b.Context(), s, &treepb.FromVM{Message: &treepb.FromVM_Join{Join: &treepb.Join{Function: image}}})
	}
	b.Run("under the lock", func(b *testing.B) {
		for b.Loop() {
			f.c.copyTree(Key{DefaultTenant, image})
		}
	})
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			f.c.Tree(Key{DefaultTenant, image})
		}
	})
}
