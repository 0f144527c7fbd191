package sim

import (
	"context"
	"crypto/ed25519"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/faasnet/faasnet/cmd/internal/coordinator"
	"github.com/faasnet/faasnet/peer/peertest"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

// coordinatorHost is the host of the coordinator.
type coordinatorHost struct {
	w    *world
	host *peertest.Host

	mu   sync.Mutex // guards what follows
	c    *coordinator.Coordinator
	halt func() // nil while it does not run
}

// start runs a coordinator that remembers nothing of an earlier one.
func (h *coordinatorHost) start() {
	c, err := coordinator.New(coordinator.Options{Form: h.w.o.form, Key: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))})
	if err != nil {
		h.w.t.Error(err)
		return
	}
	h.host.Revive()
	l := h.host.Listen()
	s := grpc.NewServer(coordinator.ServerOptions()...)
	c.RegisterMembership(s)
	ctx, cancel := context.WithCancel(background)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := c.Run(ctx); err != nil {
			h.w.t.Errorf("coordinator: %v", err)
		}
	})
	wg.Go(func() { _ = s.Serve(l) }) // ends with Stop
	h.mu.Lock()
	defer h.mu.Unlock()
	h.c = c
	h.halt = func() {
		h.host.Kill()
		s.Stop()
		cancel()
		wg.Wait()
	}
}

// kill ends the coordinator as kill -9 does.
func (h *coordinatorHost) kill() {
	h.mu.Lock()
	halt := h.halt
	h.halt = nil
	h.mu.Unlock()
	if halt != nil {
		halt()
	}
}

// of returns the tree of a function, nil if there is none.
func (h *coordinatorHost) of(function string) *treepb.Tree {
	h.mu.Lock()
	c := h.c
	h.mu.Unlock()
	return c.Tree(coordinator.Key{Tenant: coordinator.DefaultTenant, Function: function})
}

// restart kills the coordinator and starts another one later.
func (h *coordinatorHost) restart(after time.Duration) {
	h.kill()
	time.Sleep(after)
	h.start()
}
