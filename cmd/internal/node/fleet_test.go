package node

import (
	"context"
	"crypto/ed25519"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"google.golang.org/grpc"

	"github.com/faasnet/faasnet/cmd/internal/config"
	"github.com/faasnet/faasnet/cmd/internal/coordinator"
	"github.com/faasnet/faasnet/fs/index/indextest"
	"github.com/faasnet/faasnet/fs/layer"
	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

// coordinate runs a coordinator on the loopback interface and returns its
// address.
func coordinate(t *testing.T, o coordinator.Options, opts ...grpc.ServerOption) string {
	t.Helper()
	o.Key, o.AllowLoopback = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), true
	c, err := coordinator.New(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(append(opts, coordinator.ServerOptions()...)...)
	c.RegisterMembership(s)
	ctx, stop := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { c.Run(ctx) })
	work.Go(func() { s.Serve(l) })
	t.Cleanup(func() {
		stop()
		s.Stop()
		work.Wait()
	})
	return l.Addr().String()
}

// inTree is a configuration of a VM on the loopback interface.
func (w *world) inTree(t *testing.T, vm, coordinator string) *config.Config {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close() // the VM takes the port over
	c := w.config()
	c.Tree.JoinTimeout = config.Duration(time.Minute) // the machine may be slow
	c.Tree.Enabled, c.Tree.VM, c.Tree.Coordinators, c.Peer.Address = true, vm, []string{coordinator}, address
	return c
}

// pulled claims the layers as containerd does while it pulls, for an image with
// a manifest.
func (d *daemon) pulled(t *testing.T, labels []map[string]string) {
	t.Helper()
	for _, l := range labels {
		if err := d.Claim(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
}

// Three VMs start the same image: most of it comes from the registry once, and all
// see the same files.
func TestFleet(t *testing.T) {
	w := newWorld(t)
	for _, l := range w.labels {
		l[manifestLabel] = digest.FromString("manifest").String()
	}
	at := coordinate(t, coordinator.Options{})
	var vms []*daemon
	for _, name := range []string{"one", "two", "three"} {
		vms = append(vms, start(t, t.TempDir(), w.inTree(t, name, at)))
	}
	for _, d := range vms {
		d.pulled(t, w.labels)
	}
	want := overlay(t, topFirst(w.dirs)...)
	for i, d := range vms {
		dir := d.mount(t, "container", w.labels)
		indextest.Compare(t, want, overlay(t, dir), likeUnpacked)
		if _, in := d.fleet.client.Place(digest.FromString("manifest").String()); !in {
			t.Errorf("VM %d has no place", i)
		}
	}
	asked := map[string]int{}
	for _, q := range w.reg.Requests() {
		if q.Is(registrytest.Blobs) {
			asked[q.Path+" "+q.Header.Get("Range")]++
		}
	}
	for what, n := range asked { // twice may be a hedge on a slow machine
		if n >= len(vms) {
			t.Errorf("the registry was asked %d times for %s", n, what)
		}
	}
	var relayed int64
	for _, d := range vms {
		sent, _ := d.fleet.relay.Relayed()
		relayed += sent
	}
	if relayed == 0 {
		t.Error("nothing was relayed")
	}
	// With the last layer the VM leaves the tree.
	vms[2].Release(t.Context(), "container")
	if err := vms[2].Retain(t.Context(), w.labels); err != nil {
		t.Error(err)
	}
	if n := len(vms[2].fleet.client.Functions()); n != 1 {
		t.Errorf("in %d functions with all layers", n)
	}
	if err := vms[2].Retain(t.Context(), w.labels[:2]); err != nil {
		t.Error(err)
	}
	if n := len(vms[2].fleet.client.Functions()); n != 0 {
		t.Errorf("in %d functions without the index layer", n)
	}
}

// PN-11: with the coordinator away, and with everybody else's relay port closed,
// images are read from the registry, and a start waits 500 ms at most, once.
func TestPN11_WithoutFleet(t *testing.T) {
	w := newWorld(t)
	c := w.inTree(t, "alone", "127.0.0.1:1")
	c.Tree.JoinTimeout = config.Default().Tree.JoinTimeout
	d := start(t, t.TempDir(), c)
	d.pulled(t, w.labels)
	began := time.Now()
	dir := d.mount(t, "container", w.labels)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("mounted after %v", took)
	}
	indextest.Compare(t, overlay(t, topFirst(w.dirs)...), overlay(t, dir), likeUnpacked)
}

func TestFunctionOf(t *testing.T) {
	w := newWorld(t)
	last := len(w.labels) - 1
	info := func(i int) layer.Info {
		info, err := layer.FromLabels(w.labels[i])
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	if f := functionOf(w.labels[0], info(0)); f != "" {
		t.Errorf("a data layer alone is of %s", f)
	}
	if f := functionOf(w.labels[last], info(last)); f != "sha256:"+info(last).Image.Sum.String() {
		t.Errorf("the index layer is of %s", f)
	}
	d := digest.FromString("manifest").String()
	w.labels[0][manifestLabel], w.labels[last][manifestLabel] = d, "latest"
	if f := functionOf(w.labels[0], info(0)); f != d {
		t.Errorf("a layer with a manifest is of %s", f)
	}
	if f := functionOf(w.labels[last], info(last)); !strings.HasPrefix(f, "sha256:") {
		t.Errorf("a label that is no digest makes %s", f)
	}
}

// A fleet that cannot be as configured stops the daemon at its start.
func TestFleetConfiguration(t *testing.T) {
	w := newWorld(t)
	none := filepath.Join(t.TempDir(), "none.pem")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	ca := newAuthority(t)
	other := ca.leaf("other", time.Hour)
	for want, change := range map[string]func(*config.Config){
		"relay:":                 func(c *config.Config) { c.Peer.Address = taken.Addr().String() },
		"tree.ca:":               func(c *config.Config) { c.Tree.CA = none },
		"peer.ca:":               func(c *config.Config) { c.Peer.Certificate, c.Peer.Key, c.Peer.CA = none, none, none },
		"peer.certificate: open": func(c *config.Config) { c.Peer.Certificate, c.Peer.Key, c.Peer.CA = none, none, ca.file("ca") },
		"peer.certificate: x509": func(c *config.Config) { // of another VM
			c.Peer.Certificate, c.Peer.Key, c.Peer.CA = other+".pem", other+".key", ca.file("ca")
		},
	} {
		c := w.inTree(t, "vm", "127.0.0.1:1")
		change(c)
		n, err := Open(t.Context(), t.TempDir(), c, nil)
		if err == nil {
			n.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("opened with %v, want %s", err, want)
		}
	}
}
