package treeclient_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/faasnet/faasnet/treeclient"
	"github.com/faasnet/faasnet/treeclient/treepb"
	"github.com/faasnet/faasnet/treeclient/treetest"
)

func TestMain(m *testing.M) {
	logrus.SetOutput(io.Discard)
	goleak.VerifyTestMain(m)
}

const home, other = "coordinator-a:1", "coordinator-b:1"

// world is coordinators and VMs in memory and in virtual time.
type world struct {
	t   *testing.T
	net *treetest.Network
}

func inBubble(t *testing.T, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(&world{t, &treetest.Network{}}) })
}

func (w *world) coordinator() *treetest.Coordinator {
	w.t.Helper()
	c, err := treetest.NewCoordinator()
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// serve serves c at an address until the test ends or stop is called.
func (w *world) serve(address string, c *treetest.Coordinator) (stop func()) {
	w.t.Helper()
	stop, err := w.net.Serve(address, func(s grpc.ServiceRegistrar) { c.Register(s) })
	if err != nil {
		w.t.Fatal(err)
	}
	var once sync.Once
	stop = sync.OnceFunc(stop)
	w.t.Cleanup(func() { once.Do(stop) })
	return stop
}

// vm is one client with what it was told.
type vm struct {
	*treeclient.Client
	stop func()

	mu      sync.Mutex
	changes []string
	load    treeclient.Load
	held    uint64
}

func (w *world) vm(name string, edit ...func(*treeclient.Options)) *vm {
	w.t.Helper()
	v := &vm{}
	o := treeclient.Options{
		Coordinators: []string{home}, VM: name, Address: "10.0.0.1:7000", Dial: w.net.Dial,
		Changed: func(f string, before, now treeclient.Place) {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.changes = append(v.changes, fmt.Sprintf("%s %s>%s", f, upstream(before), upstream(now)))
		},
		Load: func() treeclient.Load { v.mu.Lock(); defer v.mu.Unlock(); return v.load },
		Held: func(string) uint64 { v.mu.Lock(); defer v.mu.Unlock(); return v.held },
	}
	for _, e := range edit {
		e(&o)
	}
	c, err := treeclient.New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	v.Client = c
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	v.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(v.stop)
	synctest.Wait()
	return v
}

func upstream(p treeclient.Place) string {
	switch {
	case len(p.Stripes) == 0:
		return "none"
	case p.Stripes[0].Upstream.VM == "":
		return "origin"
	}
	return p.Stripes[0].Upstream.VM
}

func (v *vm) told() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.changes)
}

func (v *vm) at(f string) string {
	p, _ := v.Place(f)
	return upstream(p)
}

// took returns how long do takes in virtual time.
func took(do func()) time.Duration {
	began := time.Now()
	do()
	return time.Since(began)
}

// said records what VMs say, without heartbeats.
type said struct {
	mu  sync.Mutex
	all []*treepb.FromVM
}

func (s *said) hear(_ string, m *treepb.FromVM) bool {
	if m.GetHeartbeat() == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = append(s.all, m)
	}
	return true
}

func pick[M any](s *said, get func(*treepb.FromVM) *M) (out []*M) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.all {
		if x := get(m); x != nil {
			out = append(out, x)
		}
	}
	return out
}

func joins(s *said) []*treepb.Join     { return pick(s, (*treepb.FromVM).GetJoin) }
func reports(s *said) []*treepb.Report { return pick(s, (*treepb.FromVM).GetReport) }
