package etcdjournal

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/faasnet/faasnet/cmd/internal/coordinator"
	"github.com/faasnet/faasnet/cmd/internal/coordinator/etcdjournal/etcdtest"
	"github.com/faasnet/faasnet/treeclient"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

func TestMain(m *testing.M) {
	logrus.SetOutput(io.Discard)
	goleak.VerifyTestMain(m)
}

// member is a coordinator on loopback that keeps its trees in etcd.
type member struct {
	*coordinator.Coordinator
	journal *Journal
	address string
	stop    func() // as a signal does
}

// world is real parts: etcd, coordinators and VMs on loopback.
type world struct {
	t      *testing.T
	etcd   *etcdtest.Etcd
	settle time.Duration // long, so that a slow machine moves nobody
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t, etcdtest.Start(t), 30 * time.Second}
}

// start runs a coordinator at an address, "" for a new one.
func (w *world) start(address string) *member {
	w.t.Helper()
	if address == "" {
		address = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		w.t.Fatal(err)
	}
	address = l.Addr().String()
	j, err := New(Options{Endpoints: []string{w.etcd.Endpoint}, Self: address, TTL: 2 * time.Second, Pace: 50 * time.Millisecond})
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := coordinator.New(coordinator.Options{
		Key: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), AllowLoopback: true, Journal: j,
		Heartbeat: 5 * time.Second, // no VM dies of a slow machine
		Settle:    w.settle,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	s := grpc.NewServer(coordinator.ServerOptions()...)
	c.RegisterMembership(s)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- c.Run(ctx) }()
	m := &member{Coordinator: c, journal: j, address: address, stop: sync.OnceFunc(func() {
		cancel()
		if err := <-ran; err != nil {
			w.t.Error(err)
		}
		s.Stop()
		if err := <-served; err != nil {
			w.t.Error(err)
		}
	})}
	w.t.Cleanup(m.stop)
	return m
}

type vm struct {
	*treeclient.Client
	stop func()
}

func (w *world) vm(i int, coordinators ...string) *vm {
	w.t.Helper()
	c, err := treeclient.New(treeclient.Options{
		Coordinators: coordinators, VM: fmt.Sprint("vm", i), Address: fmt.Sprintf("127.0.0.1:%d", 10_000+i),
		Held: func(string) uint64 { return 100 },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	v := &vm{c, sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})}
	w.t.Cleanup(v.stop)
	return v
}

// until waits for what has to come; a minute is a hang.
func (w *world) until(what string, is func() bool) time.Duration {
	w.t.Helper()
	began := time.Now()
	for !is() {
		if time.Since(began) > time.Minute {
			w.t.Fatalf("not within a minute: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(began)
}

func key(f string) coordinator.Key {
	return coordinator.Key{Tenant: coordinator.DefaultTenant, Function: f}
}

// stored returns what etcd has of a function.
func (w *world) stored(f string) *treepb.Tree {
	w.t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{w.etcd.Endpoint}, Logger: zap.NewNop()})
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	j := Journal{opts: Options{Prefix: DefaultPrefix}}
	res, err := c.Get(ctx, j.treeKey(key(f)))
	if err != nil {
		w.t.Fatal(err)
	}
	if len(res.Kvs) == 0 {
		return nil
	}
	t, err := decode(res.Kvs[0].Value)
	if err != nil {
		w.t.Fatal(err)
	}
	return t
}

// owned returns a function whose owner is m.
func (w *world) owned(m *member) string {
	w.t.Helper()
	for i := range 1000 {
		if f := fmt.Sprint("sha256:", i); m.journal.Owner(key(f), nil) == "" {
			return f
		}
	}
	w.t.Fatal("a coordinator owns nothing of 1,000 functions")
	return ""
}

func (w *world) seeEachOther(ms ...*member) {
	w.t.Helper()
	w.until("the coordinators see each other", func() bool {
		for _, m := range ms {
			if len(*m.journal.ring.Load()) != len(ms) {
				return false
			}
		}
		return true
	})
}

func shape(t *treepb.Tree) map[string]string {
	s := map[string]string{}
	for _, n := range t.GetNodes() {
		s[n.Peer.Vm] = fmt.Sprint(n.Upstreams)
	}
	return s
}
