package wires

import (
	"context"
	"net"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a VM until the test ends.
func start(t *testing.T, protocol, name, above, upstream string, load *Load) (*VM, string) {
	t.Helper()
	v, err := Open(t.Context(), Config{Name: name, Protocol: protocol, Dir: t.TempDir(), Above: above, Upstream: upstream}, load)
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- v.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return v, l.Addr().String()
}

// Every protocol carries the whole layer through one VM to two, which read
// from nobody else.
func TestRelay(t *testing.T) {
	load, err := NewLoad(12)
	if err != nil {
		t.Fatal(err)
	}
	for _, protocol := range Protocols() {
		t.Run(protocol, func(t *testing.T) {
			_, top := start(t, protocol, "top", "", "", load)
			relay, address := start(t, protocol, "relay", "top", top, load)
			var g errgroup.Group
			g.Go(func() error { return relay.Read(t.Context()) })
			for _, name := range []string{"left", "right"} {
				child, _ := start(t, protocol, name, "relay", address, load)
				g.Go(func() error { return child.Gather(t.Context()) })
			}
			if err := g.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	if _, err := Open(t.Context(), Config{Protocol: "pigeon", Dir: t.TempDir()}, load); err == nil {
		t.Error("an unknown protocol is no error")
	}
}
