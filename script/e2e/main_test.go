// Package e2e tests the product with real parts: containerd, runc, a registry
// and our daemon, on simulated hosts.
package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/log"

	"github.com/faasnet/faasnet/script/images"
	"github.com/faasnet/faasnet/script/lab"
)

// soak makes the long tests as long as they are meant to be.
var soak = os.Getenv("FAASNET_SOAK") != ""

// The world is one lab for all tests: a registry that fills as images are
// wanted, and a host for each test.
type world struct {
	*lab.Lab
	hub    *lab.Hub
	filler *lab.Registry // where images are pushed to, on the machine's network
	fill   *lab.Host
	origin *lab.Registry // the same data, behind a link
	link   *lab.Net
	hosts  string
	vms    atomic.Int64

	mu     sync.Mutex
	pushed map[string]image
}

// image is an image in the registry: as built, and converted.
type image struct {
	layout      string
	plain, lazy string // references
}

var theWorld = sync.OnceValues(newWorld)

func TestMain(m *testing.M) {
	if err := log.SetLevel("error"); err != nil {
		panic(err)
	}
	code := m.Run()
	w, err := theWorld()
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func newWorld() (_ *world, err error) {
	product, err := os.MkdirTemp("", "faasnet-e2e") // what is tested is what is in the tree now
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(product)
		}
	}()
	build := exec.Command("go", "build", "-buildvcs=false", "-o", product, "./cmd/containerd-faasnet-grpc", "./cmd/faasnet", "./cmd/faasnet-tree")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build: %w: %s", err, out)
	}
	if err := os.Setenv("FAASNET_BIN", product); err != nil {
		return nil, err
	}
	tools, err := lab.FindTools()
	if err != nil {
		return nil, err
	}
	l, err := lab.New(tools)
	if err != nil {
		return nil, err
	}
	w := &world{Lab: l, pushed: map[string]image{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	ctx := context.Background()
	if w.fill, err = l.Host("fill", nil); err != nil {
		return nil, err
	}
	data := filepath.Join(w.fill.Dir(), "data")
	if w.filler, err = w.fill.Registry(ctx, data); err != nil {
		return nil, err
	}
	if w.hub, err = l.Hub(); err != nil {
		return nil, err
	}
	if w.link, err = w.hub.Link(""); err != nil {
		return nil, err
	}
	origin, err := l.Host("origin", w.link)
	if err != nil {
		return nil, err
	}
	if w.origin, err = origin.Registry(ctx, data); err != nil {
		return nil, err
	}
	w.hosts, err = w.origin.HostsDir()
	return w, err
}

// Close ends the lab and removes what was built.
func (w *world) Close() error {
	return errors.Join(w.Lab.Close(), os.RemoveAll(w.Tools().Product))
}

// vm is one test's host with containerd and our daemon.
type vm struct {
	*world
	testing.TB
	host   *lab.Host
	daemon *lab.Daemon
	*lab.Containerd
}

// newVM gives the test a host whose link carries rate.
func newVM(t *testing.T, release lab.Release, rate string, config lab.DaemonConfig) *vm {
	t.Helper()
	w, err := theWorld()
	if err != nil {
		t.Fatal(err)
	}
	v := &vm{world: w, TB: t}
	net, err := w.hub.Link(rate)
	if err != nil {
		t.Fatal(err)
	}
	if v.host, err = w.Host(fmt.Sprintf("vm%d", w.vms.Add(1)), net); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			v.tell()
		}
		if err := v.host.Close(); err != nil {
			t.Error(err)
		}
	})
	config.HostsDir = w.hosts
	if v.daemon, err = v.host.Daemon(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	if v.Containerd, err = v.host.Containerd(t.Context(), release, w.hosts, v.daemon); err != nil {
		t.Fatal(err)
	}
	return v
}

// tell logs what the daemons said at last.
func (v *vm) tell() {
	if v.daemon != nil {
		v.Logf("daemon: %s", v.daemon.Tail())
	}
	if v.Containerd != nil {
		v.Logf("containerd: %s", v.Containerd.Tail())
	}
}

// built gives one of the images that script/images builds.
func (v *vm) built(name string) image {
	v.Helper()
	cache, err := images.Cache()
	if err != nil {
		v.Fatal(err)
	}
	layout, err := images.Build(v.Context(), cache, name, io.Discard)
	if err != nil {
		v.Fatal(err)
	}
	return v.push(name, layout)
}

// push pushes the image of an OCI layout as it is, and its conversion.
func (v *vm) push(name, layout string) image {
	v.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	if img, ok := v.pushed[name]; ok {
		return img
	}
	src, err := v.filler.Push(v.Context(), layout, name+":plain")
	if err != nil {
		v.Fatal(err)
	}
	dst := v.filler.Addr + "/" + name + ":lazy"
	if _, err := v.fill.Run(v.Context(), v.program("faasnet"), "convert", "--plain-http", "--quiet", src, dst); err != nil {
		v.Fatal(err)
	}
	img := image{layout: layout, plain: v.origin.Addr + "/" + name + ":plain", lazy: v.origin.Addr + "/" + name + ":lazy"}
	v.pushed[name] = img
	return img
}

func (v *vm) program(name string) string { return filepath.Join(v.Tools().Product, name) }

// must fails the test at once on an error.
func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (v *vm) check(err error) {
	v.Helper()
	if err != nil {
		v.Fatal(err)
	}
}

// pullLazily pulls with our snapshotter: with ctr where containerd tells it
// all it needs, else with faasnet pull.
func (v *vm) pullLazily(release lab.Release, ref string) {
	v.Helper()
	if release == lab.Current {
		v.check(v.Pull(v.Context(), "faasnet", ref))
		return
	}
	must(v.host.Run(v.Context(), v.program("faasnet"), "pull", "--address", v.Address(), "--hosts-dir", v.hosts, ref))(v)
}

// restart starts the daemon again and waits until containerd has noticed: its
// connection to a proxy plugin that was gone backs off up to 3 s.
func (v *vm) restart() {
	v.Helper()
	v.check(v.daemon.Start(v.Context()))
	const patience = 20 * time.Second
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		_, err := v.Ctr(v.Context(), "snapshot", "--snapshotter", "faasnet", "ls")
		if err == nil {
			return
		}
		if time.Now().After(end) {
			v.Fatal(err)
		}
	}
}

// blobs counts the layer blobs that containerd downloaded whole.
func (v *vm) blobs(ref string) (n int) {
	v.Helper()
	layers := must(v.Layers(v.Context(), ref))(v)
	have := must(v.Ctr(v.Context(), "content", "ls", "-q"))(v)
	for _, l := range layers {
		if strings.Contains(have, l.Digest.String()) {
			n++
		}
	}
	return n
}

// mounted mounts an image until the test ends or the returned function is called.
func (v *vm) mounted(c *lab.Containerd, snapshotter, ref string) (dir string, unmount func()) {
	v.Helper()
	dir = must(c.Mount(v.Context(), snapshotter, ref))(v)
	var once sync.Once
	unmount = func() {
		once.Do(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := c.Unmount(ctx, snapshotter, dir); err != nil {
				v.Error(err)
			}
		})
	}
	v.Cleanup(unmount)
	return dir, unmount
}

// logged counts the lines of the daemon's log that hold all of these.
func (v *vm) logged(parts ...string) (n int) {
	v.Helper()
next:
	for line := range strings.Lines(string(must(os.ReadFile(v.daemon.LogFile()))(v))) {
		for _, p := range parts {
			if !strings.Contains(line, p) {
				continue next
			}
		}
		n++
	}
	return n
}
