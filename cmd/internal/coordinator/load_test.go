package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/treeclient/treepb"
	"github.com/faasnet/faasnet/treeclient/treetest"
)

// crowdOfVMs is VMs with real streams and no heartbeats.
type crowdOfVMs struct {
	t     testing.TB
	c     *Coordinator
	conns []*grpc.ClientConn
}

func newCrowd(t testing.TB, conns int, o Options) *crowdOfVMs {
	t.Helper()
	o.Key, o.Heartbeat = testKey(), time.Hour // nobody dies of a slow machine
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	var net treetest.Network
	stop, err := net.Serve(home, func(s grpc.ServiceRegistrar) { c.RegisterMembership(s) }, ServerOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	cr := &crowdOfVMs{t: t, c: c}
	for range conns {
		conn, err := net.Dial(home)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		cr.conns = append(cr.conns, conn)
	}
	return cr
}

// attendee is one VM of a crowd.
type attendee struct {
	treepb.Membership_AttendClient
	name string

	mu    sync.Mutex
	place *treepb.Assignment // the last one
	told  int                // places so far
	first chan time.Time     // when the first one came
}

func (cr *crowdOfVMs) attend(ctx context.Context, i int) (*attendee, error) {
	s, err := treepb.NewMembershipClient(cr.conns[i%len(cr.conns)]).Attend(ctx)
	if err != nil {
		return nil, err
	}
	a := &attendee{Membership_AttendClient: s, name: fmt.Sprint("vm", i), first: make(chan time.Time, 1)}
	if err := s.Send(&treepb.FromVM{Message: &treepb.FromVM_Hello{Hello: &treepb.Hello{Protocol: 1, Vm: a.name, Address: "10.0.0.1:7000"}}}); err != nil {
		return nil, err
	}
	m, err := s.Recv()
	if err != nil || m.GetWelcome() == nil {
		return nil, fmt.Errorf("%v: %w", m, err)
	}
	return a, nil
}

func (a *attendee) join(f string) error {
	return a.Send(&treepb.FromVM{Message: &treepb.FromVM_Join{Join: &treepb.Join{Function: f}}})
}

func (a *attendee) leave(f string) error {
	return a.Send(&treepb.FromVM{Message: &treepb.FromVM_Leave{Leave: &treepb.Leave{Function: f}}})
}

// read takes assignments until the stream ends.
func (a *attendee) read() {
	for {
		m, err := a.Recv()
		if err != nil {
			return
		}
		if p := m.GetAssignment(); p != nil {
			a.mu.Lock()
			if a.place == nil {
				a.first <- time.Now()
			}
			a.place = p
			a.told++
			a.mu.Unlock()
		}
	}
}

// settled waits until the tree is want VMs and all of them know their places.
func (cr *crowdOfVMs) settled(f string, vms []*attendee, want int) {
	cr.t.Helper()
	settled := func() (string, bool) {
		cr.c.mu.Lock()
		defer cr.c.mu.Unlock()
		g := cr.c.groves[Key{DefaultTenant, f}]
		if g == nil || g.tree.Len() != want {
			return "not all are there", false
		}
		for _, a := range vms {
			a.mu.Lock()
			knows := !g.tree.Has(tree.VM(a.name)) || a.place != nil && knows(a.place, g, tree.VM(a.name))
			a.mu.Unlock()
			if !knows {
				return a.name + " does not know its place", false
			}
		}
		if err := sound(g.tree, cr.c.opts.Form); err != nil {
			return err.Error(), false
		}
		return "", true
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if why, ok := settled(); ok {
			return
		} else if time.Now().After(end) {
			cr.t.Fatal(why)
		}
	}
}

func percentile(d []time.Duration, p int) time.Duration {
	slices.Sort(d)
	return d[len(d)*p/100]
}

func TestCO02_ParallelJoinsAndLeaves(t *testing.T) {
	cr := newCrowd(t, 100, Options{})
	const joins, leaves = 1000, 300
	vms := make([]*attendee, joins)
	took := make([]time.Duration, joins)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range vms {
		a, err := cr.attend(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		vms[i] = a
		go a.read()
		wg.Go(func() {
			<-start
			began := time.Now()
			if err := a.join(image); err != nil {
				t.Error(err)
				return
			}
			took[i] = (<-a.first).Sub(began)
			if i%3 == 0 && i/3 < leaves {
				if err := a.leave(image); err != nil {
					t.Error(err)
				}
			}
		})
	}
	close(start)
	wg.Wait()
	cr.settled(image, vms, joins-leaves)
	for i, a := range vms {
		cr.c.mu.Lock()
		in := cr.c.seat(Key{DefaultTenant, image}, tree.VM(a.name)) != nil
		cr.c.mu.Unlock()
		if left := i%3 == 0 && i/3 < leaves; in == left {
			t.Errorf("%s: in the tree: %t, has left: %t", a.name, in, left)
		}
	}
	t.Logf("1,000 joins at once: median %v, p99 %v", percentile(took, 50), percentile(took, 99))
}

// cycles is how often VMs come and go; soak runs do it 50,000 times.
func cycles() int {
	if os.Getenv("FAASNET_SOAK") != "" {
		return 50_000
	}
	return 2000
}

func TestCO05_ComingAndGoingLeavesNothing(t *testing.T) {
	cr := newCrowd(t, 8, Options{})
	cycle := func(i int) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a, err := cr.attend(ctx, i)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.join(image); err != nil {
			t.Fatal(err)
		}
		if m, err := a.Recv(); err != nil || m.GetAssignment() == nil {
			t.Fatalf("%v, %v", m, err)
		}
		if i%2 == 0 {
			if err := a.leave(image); err != nil {
				t.Fatal(err)
			}
		}
		a.CloseSend()
		if _, err := a.Recv(); i%2 == 0 && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	state := func() (heap uint64, goroutines int) {
		for range 100 { // until the last stream's goroutines are gone
			runtime.GC()
			if n := runtime.NumGoroutine(); n == goroutines {
				break
			} else {
				goroutines = n
			}
			time.Sleep(10 * time.Millisecond)
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, goroutines
	}
	for i := range 500 {
		cycle(i)
	}
	heap, goroutines := state()
	n := cycles()
	for i := range n {
		cycle(i)
	}
	heapNow, goroutinesNow := state()
	t.Logf("%d cycles: heap %d KiB, then %d KiB; goroutines %d, then %d", n, heap>>10, heapNow>>10, goroutines, goroutinesNow)
	if heapNow > heap+heap/10+256<<10 {
		t.Errorf("the heap grows from %d to %d bytes", heap, heapNow)
	}
	if goroutinesNow > goroutines+2 {
		t.Errorf("%d goroutines, then %d", goroutines, goroutinesNow)
	}
	cr.c.mu.Lock()
	defer cr.c.mu.Unlock()
	if len(cr.c.sessions)+len(cr.c.groves)+len(cr.c.settling)+len(cr.c.suspended) != 0 {
		t.Errorf("%d sessions, %d trees are left", len(cr.c.sessions), len(cr.c.groves))
	}
}

func TestCO06_AnswerOfAssignments(t *testing.T) {
	cr := newCrowd(t, 10, Options{MaxFunctions: 100})
	var took []time.Duration
	for i := range 10 {
		a, err := cr.attend(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		for f := range 100 {
			began := time.Now()
			if err := a.join(fmt.Sprint("f", f)); err != nil {
				t.Fatal(err)
			}
			for {
				m, err := a.Recv()
				if err != nil {
					t.Fatal(err)
				}
				if m.GetAssignment().GetFunction() == fmt.Sprint("f", f) {
					break
				}
			}
			took = append(took, time.Since(began))
		}
	}
	t.Logf("100 functions of 10 VMs: median %v, p99 %v", percentile(took, 50), percentile(took, 99))
}
