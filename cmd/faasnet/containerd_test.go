package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/contrib/snapshotservice"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/errdefs"
	"google.golang.org/grpc"

	"github.com/faasnet/faasnet/convert/imagetest"
	"github.com/faasnet/faasnet/fs/layer"
	"github.com/faasnet/faasnet/fs/registry/registrytest"
	"github.com/faasnet/faasnet/snapshotter"
)

// startContainerd starts the containerd on PATH, which is Debian's, with the
// snapshotter "faasnet" at a socket, and returns its own socket.
func startContainerd(t *testing.T, snapshotter string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "c") //nolint:usetesting // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	config := fmt.Sprintf(`version = 2
root = "%[1]s/root"
state = "%[1]s/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt", "io.containerd.internal.v1.restart"]
[grpc]
address = "%[1]s/c"
[ttrpc]
address = "%[1]s/t"
[proxy_plugins.faasnet]
type = "snapshot"
address = %[2]q
`, dir, snapshotter)
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command("containerd", "--config", filepath.Join(dir, "config.toml"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		if t.Failed() {
			b, _ := os.ReadFile(filepath.Join(dir, "log"))
			lines := strings.Split(string(b), "\n")
			t.Log(strings.Join(lines[max(0, len(lines)-20):], "\n"))
		}
	})
	client := dial(t, dir+"/c")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if ok, err := client.IsServing(ctx); !ok {
		t.Fatalf("containerd does not serve: %v", err)
	}
	return dir + "/c"
}

func dial(t *testing.T, address string) *containerd.Client {
	t.Helper()
	client, err := containerd.New(address, containerd.WithDefaultNamespace("default"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// collect makes containerd delete all that nothing refers to.
func collect(t *testing.T, client *containerd.Client) {
	t.Helper()
	ls := client.LeasesService()
	l, err := ls.Create(t.Context(), leases.WithRandomID())
	if err != nil {
		t.Fatal(err)
	}
	if err := ls.Delete(t.Context(), l, leases.SynchronousDelete); err != nil {
		t.Fatal(err)
	}
}

func TestConvertInContainerd(t *testing.T) {
	address := startContainerd(t, "/none")
	client := dial(t, address)
	cs := newStore(t)
	reg := registrytest.New(t, registrytest.Options{})
	push(t, reg, "app", "1", cs, smallImage(t, cs))
	faasnet(t, 0, "convert", reg.Host()+"/app:1", reg.Host()+"/app:lazy")
	want, _, _ := reg.Manifest("app", "lazy")

	at := []string{"--address", address}
	convert := func(src, dst string) summary {
		t.Helper()
		out, _ := faasnet(t, 0, append([]string{"convert", "--json"}, append(at, src, dst)...)...)
		collect(t, client)
		s := decode[summary](t, out)
		if s.Digest != want {
			t.Errorf("%s to %s gives %s, want %s", src, dst, s.Digest, want)
		}
		return s
	}
	verify := func(name string) {
		t.Helper()
		faasnet(t, 0, append([]string{"verify"}, append(at, name)...)...)
	}

	convert(reg.Host()+"/app:1", "containerd://docker.io/library/a:1")
	verify("containerd://docker.io/library/a:1")

	// A plain image in containerd, converted there.
	n, err := names("containerd://docker.io/library/plain:1")
	if err != nil {
		t.Fatal(err)
	}
	src, _, _ := reg.Manifest("app", "1")
	pullInto(t, client, reg.Host()+"/app:1", n[0].Ref)
	if s := convert("containerd://docker.io/library/plain:1", "containerd://docker.io/library/b:1"); s.Reused != 2 {
		t.Errorf("%d layers reused, want 2: containerd has them converted", s.Reused)
	}
	verify("containerd://docker.io/library/b:1")
	for _, name := range []string{"a", "b"} {
		if err := client.ImageService().Delete(t.Context(), "docker.io/library/"+name+":1"); err != nil {
			t.Fatal(err)
		}
	}
	collect(t, client)
	if s := convert("containerd://docker.io/library/plain:1", "containerd://docker.io/library/plain:1"); s.Reused != 0 {
		t.Errorf("%d layers reused, want none: they are deleted", s.Reused)
	}
	verify("containerd://docker.io/library/plain:1")
	convert("containerd://docker.io/library/plain:1", reg.Host()+"/app:back")
	if _, err := client.ContentStore().Info(t.Context(), src); !errdefs.IsNotFound(err) {
		t.Errorf("the source manifest is still there: %v", err)
	}
	faasnet(t, exitError, append([]string{"convert"}, append(at, "containerd://docker.io/library/none:1", "containerd://docker.io/library/c:1")...)...)
}

// pullInto makes an image of a registry one of containerd, without unpacking.
func pullInto(t *testing.T, client *containerd.Client, ref, name string) {
	t.Helper()
	img, err := client.Fetch(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	img.Name = name
	if _, err := client.ImageService().Create(t.Context(), img); err != nil {
		t.Fatal(err)
	}
	if err := client.ImageService().Delete(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
}

// claims is a Mounter that claims every converted layer and remembers its
// labels. It mounts nothing.
type claims struct {
	mu     sync.Mutex // guards labels
	labels []map[string]string
}

func (c *claims) Claim(_ context.Context, l map[string]string) error {
	if _, err := layer.FromLabels(l); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.labels = append(c.labels, l)
	return nil
}

func (*claims) Mount(context.Context, string, []map[string]string, []string) (string, error) {
	return "", errdefs.ErrUnavailable
}
func (*claims) Release(context.Context, string) error             { return nil }
func (*claims) Retain(context.Context, []map[string]string) error { return nil }

func TestPull(t *testing.T) {
	dir := t.TempDir()
	mounter := &claims{}
	sn, err := snapshotter.New(t.Context(), dir, mounter)
	if err != nil {
		t.Fatal(err)
	}
	defer sn.Close()
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	snapshotsapi.RegisterSnapshotsServer(server, snapshotservice.FromSnapshotter(sn))
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() { server.Stop(); <-served }()
	address := startContainerd(t, socket)

	cs := newStore(t)
	reg := registrytest.New(t, registrytest.Options{})
	lies := map[string]string{"containerd.io/snapshot/cri.image-ref": reg.Host() + "/secret:1"}
	push(t, reg, "app", "1", cs, imagetest.Put(t, cs, imagetest.Image{Layers: []imagetest.Layer{
		{Tar: files(map[string]string{"a": "A"}), Annotations: lies}, {Tar: files(map[string]string{"b": "B"}), Annotations: lies},
	}}))
	faasnet(t, 0, "convert", reg.Host()+"/app:1", reg.Host()+"/app:lazy")
	reg.Forget()
	ref := reg.Host() + "/app:lazy"
	out, _ := faasnet(t, 0, "pull", "--address", address, ref)
	if !strings.Contains(out, "3 of 3 layers lazy") {
		t.Errorf("pull says %q", out)
	}
	if len(mounter.labels) != 3 {
		t.Fatalf("%d layers were claimed, want 3", len(mounter.labels))
	}
	digest, _, _ := reg.Manifest("app", "lazy")
	for _, l := range mounter.labels {
		if l["containerd.io/snapshot/cri.image-ref"] != ref || l["containerd.io/snapshot/cri.manifest-digest"] != digest.String() {
			t.Errorf("labels are %v", l)
		}
		for _, r := range reg.Requests() {
			if strings.HasSuffix(r.Path, l["containerd.io/snapshot/faasnet/layer.digest"]) {
				t.Errorf("a layer was asked for: %s %s", r.Method, r.Path)
			}
		}
	}
	first, err := layer.FromLabels(mounter.labels[0])
	if err != nil || first.Above == nil || first.Above.Index.String() != mounter.labels[2]["containerd.io/snapshot/faasnet/layer.digest"] {
		t.Errorf("the first layer that is claimed says %+v, %v", first.Above, err)
	}
	img, err := dial(t, address).ImageService().Get(t.Context(), ref)
	if err != nil || img.Target.Digest != digest {
		t.Errorf("containerd has %v, %v", img, err)
	}
	// A plain image is unpacked as usual. This one shares no layer.
	push(t, reg, "app", "1", cs, imagetest.Put(t, cs, imagetest.Image{Layers: []imagetest.Layer{{Tar: files(map[string]string{"x": "X"})}, {Tar: files(map[string]string{"y": "Y"})}}}))
	if out, _ := faasnet(t, 0, "pull", "--address", address, reg.Host()+"/app:1"); !strings.Contains(out, "0 of 2 layers lazy") {
		t.Errorf("pull of a plain image says %q", out)
	}
}
