package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/faasnet/faasnet/treeclient"
	"github.com/faasnet/faasnet/treeclient/treepb"
	"github.com/faasnet/faasnet/treeclient/treetest"
)

const home = "coordinator:1"

// world is coordinators and VMs with the real client, in memory and in virtual
// time.
type world struct {
	t   *testing.T
	net treetest.Network
}

func inBubble(t *testing.T, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(&world{t: t}) })
}

// running is a coordinator that serves.
type running struct {
	*Coordinator
	kill  func() // as kill -9 does
	close func() // as a signal does
}

func (w *world) serve(address string, o Options) *running {
	w.t.Helper()
	o.Key = testKey()
	c, err := New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	stop, err := w.net.Serve(address, func(s grpc.ServiceRegistrar) { c.RegisterMembership(s); c.RegisterScheduler(s) }, ServerOptions()...)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	end := func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	}
	var once sync.Once
	r := &running{
		Coordinator: c,
		kill:        func() { once.Do(func() { stop(); end() }) },
		close:       func() { once.Do(func() { end(); stop() }) },
	}
	w.t.Cleanup(r.kill)
	return r
}

// vm is a client on an address of its own.
type vm struct {
	*treeclient.Client
	name, address string
	stop          func()

	mu   sync.Mutex
	held uint64
	load treeclient.Load
}

func (w *world) vm(i int, edit ...func(*treeclient.Options)) *vm {
	w.t.Helper()
	v := &vm{name: fmt.Sprintf("vm%03d", i), address: fmt.Sprintf("10.0.%d.%d:7000", i/250, i%250+1)}
	o := treeclient.Options{
		Coordinators: []string{home}, VM: v.name, Address: v.address, Dial: w.net.DialFrom(v.address),
		Held: func(string) uint64 { v.mu.Lock(); defer v.mu.Unlock(); return v.held },
		Load: func() treeclient.Load { v.mu.Lock(); defer v.mu.Unlock(); return v.load },
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

// up says whom a VM reads a stripe from.
func (v *vm) up(function string, stripe int) string {
	p, ok := v.Place(function)
	switch {
	case !ok:
		return "none"
	case p.Stripes[stripe].Upstream.VM == "":
		return "origin"
	}
	return p.Stripes[stripe].Upstream.VM
}

func (v *vm) join(t *testing.T, function string) treeclient.Place {
	t.Helper()
	p, err := v.Join(t.Context(), function)
	if err != nil {
		t.Fatalf("%s: %v", v.name, err)
	}
	return p
}

// raw is a VM without a client: it says what a test says.
type raw struct {
	treepb.Membership_AttendClient
	cancel func()
}

func (w *world) raw(from string, h *treepb.Hello) (*raw, *treepb.Welcome, error) {
	w.t.Helper()
	conn, err := w.net.DialFrom(from)(home)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	w.t.Cleanup(func() { cancel(); conn.Close() })
	s, err := treepb.NewMembershipClient(conn).Attend(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := s.Send(&treepb.FromVM{Message: &treepb.FromVM_Hello{Hello: h}}); err != nil && !errors.Is(err, io.EOF) {
		w.t.Fatal(err)
	}
	m, err := s.Recv()
	return &raw{s, cancel}, m.GetWelcome(), err
}

// last reads messages until nothing comes any more.
func (r *raw) last() (msgs []*treepb.ToVM, err error) {
	got := make(chan struct{}, 1024)
	var mu sync.Mutex
	go func() {
		for {
			m, rerr := r.Recv()
			mu.Lock()
			if rerr != nil {
				err = rerr
				mu.Unlock()
				return
			}
			msgs = append(msgs, m)
			mu.Unlock()
			got <- struct{}{}
		}
	}()
	synctest.Wait()
	r.cancel()
	synctest.Wait()
	mu.Lock()
	defer mu.Unlock()
	return msgs, err
}

func (r *running) tree(function string) *treepb.Tree {
	return r.Tree(Key{DefaultTenant, function})
}

func nodeOf(t *treepb.Tree, vm string) *treepb.Node {
	for _, n := range t.GetNodes() {
		if n.Peer.Vm == vm {
			return n
		}
	}
	return nil
}

// beat sends heartbeats for a raw VM until it ends.
func (r *raw) beat() {
	go func() {
		for r.Context().Err() == nil {
			_ = r.Send(&treepb.FromVM{Message: &treepb.FromVM_Heartbeat{Heartbeat: &treepb.Heartbeat{}}}) // Recv says why
			select {
			case <-time.After(DefaultHeartbeat):
			case <-r.Context().Done():
			}
		}
	}()
}
