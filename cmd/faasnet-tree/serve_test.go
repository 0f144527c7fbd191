package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthapi "google.golang.org/grpc/health/grpc_health_v1"
	reflectionapi "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/faasnet/faasnet/treeclient"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// served is the program, running in this process.
type served struct {
	vms, scheduler, metrics string
	stop                    func() int // exit code
	stderr                  *safeBuffer
}

// safeBuffer is a buffer that one goroutine writes and others read.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func start(t *testing.T, args ...string) *served {
	t.Helper()
	dir := t.TempDir()
	s := &served{vms: freeAddress(t), scheduler: filepath.Join(dir, "s.sock"), metrics: filepath.Join(dir, "m.sock"), stderr: &safeBuffer{}}
	args = append([]string{
		"faasnet-tree", "--listen", s.vms, "--scheduler-listen", s.scheduler, "--metrics-address", s.metrics,
		"--key-file", filepath.Join(dir, "token.key"), "--allow-loopback", "--heartbeat", "5s",
	}, args...)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan int, 1)
	go func() { done <- run(ctx, args, io.Discard, s.stderr) }()
	s.stop = sync.OnceValue(func() int { cancel(); return <-done })
	t.Cleanup(func() { s.stop() })
	until(t, "it serves", func() bool {
		c, err := net.Dial("tcp", s.vms)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return s
}

// until waits for what has to come; a minute is a hang.
func until(t testing.TB, what string, is func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !is() {
		if time.Since(began) > time.Minute {
			t.Fatalf("not within a minute: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(began)
}

// vm runs a client until the test ends or stop is called.
func vm(t *testing.T, name string, edit func(*treeclient.Options), coordinators ...string) (c *treeclient.Client, stop func()) {
	t.Helper()
	o := treeclient.Options{Coordinators: coordinators, VM: name, Address: "127.0.0.1:7000"}
	if edit != nil {
		edit(&o)
	}
	c, err := treeclient.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return c, stop
}

func join(t *testing.T, c *treeclient.Client, function string) treeclient.Place {
	t.Helper()
	var p treeclient.Place
	until(t, "a VM has a place", func() bool {
		var err error
		p, err = c.Join(t.Context(), function)
		return err == nil
	})
	return p
}

func dial(t *testing.T, target string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestServe(t *testing.T) {
	s := start(t, "--form", "complete")
	a, _ := vm(t, "vm-a", func(o *treeclient.Options) {
		o.Load = func() treeclient.Load { return treeclient.Load{Relayed: 3 << 20, Read: 512, Children: 1} }
		o.Held = func(string) uint64 { return 42 }
	}, s.vms)
	b, stopB := vm(t, "vm-b", nil, s.vms)
	join(t, a, "sha256:f")

	watched := &safeBuffer{}
	watching, stopWatch := context.WithCancel(t.Context())
	watchDone := make(chan int, 1)
	go func() {
		watchDone <- run(watching, []string{"faasnet-tree", "watch", "--address", s.scheduler}, watched, watched)
	}()
	until(t, "a change is seen", func() bool { // the watch may open after the first
		join(t, b, "sha256:f")
		if watched.String() == "" {
			b.Leave("sha256:f")
		}
		return strings.Contains(watched.String(), "+vm-b vm-b/0:origin>vm-a")
	})
	stopWatch()
	if code := <-watchDone; code != exitOK {
		t.Errorf("watch ends with %d: %s", code, watched.String())
	}
	until(t, "b stays", func() bool { p := join(t, b, "sha256:f"); return p.Stripes[0].Upstream.VM == "vm-a" })

	until(t, "the load is known", func() bool {
		_, out, _ := call(t, "tree", "--address", s.scheduler, "sha256:f")
		return strings.Contains(out, "relayed 3.0 MiB to 1")
	})
	_, out, errs := call(t, "tree", "--address", "unix://"+s.scheduler, "--tenant", "default", "sha256:f")
	for _, want := range []string{"function sha256:f, tenant default: 2 VMs, complete", "origin\n└─ vm-a 127.0.0.1:7000", "with 42 blocks, read 512 B", "\n   └─ vm-b"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s%s lacks %q", out, errs, want)
		}
	}
	if _, out, _ := call(t, "trees", "--address", s.scheduler); !strings.Contains(out, "default  sha256:f  2    1") {
		t.Errorf("trees: %s", out)
	}
	if code, _, errs := call(t, "tree", "--address", s.scheduler, "nothing"); code != exitFailed || !strings.Contains(errs, `no tree of "nothing"`) {
		t.Errorf("exit %d: %s", code, errs)
	}

	atVMs := dial(t, "passthrough:///"+s.vms)
	if _, err := treepb.NewSchedulerClient(atVMs).ListTrees(t.Context(), &treepb.ListTreesRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("VMs reach the scheduler's side: %v", err)
	}
	for _, conn := range []*grpc.ClientConn{atVMs, dial(t, "unix://"+s.scheduler)} {
		if h, err := healthapi.NewHealthClient(conn).Check(t.Context(), &healthapi.HealthCheckRequest{}); err != nil || h.Status != healthapi.HealthCheckResponse_SERVING {
			t.Errorf("health: %v, %v", h, err)
		}
	}
	if services := reflected(t, atVMs); !strings.Contains(services, "faasnet.tree.v1.Membership") {
		t.Errorf("reflection: %s", services)
	}
	if code, body := page(t, s.metrics, "/readyz"); code != http.StatusOK {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if _, body := page(t, s.metrics, "/metrics"); !strings.Contains(body, "faasnet_tree_vms 2") || !strings.Contains(body, "faasnet_tree_functions 1") {
		t.Errorf("metrics: %s", body)
	}

	stopB()
	if code := s.stop(); code != exitOK {
		t.Errorf("exit %d: %s", code, s.stderr)
	}
	if p, ok := a.Place("sha256:f"); !ok || len(p.Stripes) != 1 {
		t.Error("the coordinator has stopped and a VM has lost its place")
	}
	for _, socket := range []string{s.scheduler, s.metrics} {
		if _, err := os.Stat(socket); err == nil {
			t.Errorf("%s is left", socket)
		}
	}
}

func reflected(t *testing.T, conn *grpc.ClientConn) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := reflectionapi.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(&reflectionapi.ServerReflectionRequest{MessageRequest: &reflectionapi.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	r, err := s.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return r.String()
}

func page(t *testing.T, socket, path string) (int, string) {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport}).Get("http://coordinator" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func TestAddressInUse(t *testing.T) {
	s := start(t)
	if code, _, errs := call(t, "--listen", s.vms, "--scheduler-listen", filepath.Join(t.TempDir(), "s"), "--key-file", filepath.Join(t.TempDir(), "k")); code != exitFailed || !strings.Contains(errs, "in use") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func TestCredentialsOfTheCommand(t *testing.T) {
	dir := t.TempDir()
	_, public, _ := call(t, "key", filepath.Join(dir, "operator.key"))
	if err := os.WriteFile(filepath.Join(dir, "operator.pub"), []byte(public), 0o644); err != nil {
		t.Fatal(err)
	}
	s := start(t, "--credential-keys", filepath.Join(dir, "operator.pub"))
	_, text, _ := call(t, "credential", "--key-file", filepath.Join(dir, "operator.key"), "--tenant", "acme", "--vm", "a")
	with := func(o *treeclient.Options) {
		o.Credential = func() (string, error) { return strings.TrimSpace(text), nil }
	}
	good, _ := vm(t, "a", with, s.vms)
	join(t, good, "f")
	if tenant, _ := good.Identity(); tenant != "acme" {
		t.Errorf("tenant %q", tenant)
	}
	bad, _ := vm(t, "b", with, s.vms) // with a's credential
	for range 20 {
		if _, err := bad.Join(t.Context(), "f"); err == nil {
			t.Fatal("a VM joins with the credential of another")
		}
	}
	_, out, _ := call(t, "tree", "--address", s.scheduler, "--tenant", "acme", "f")
	if !strings.Contains(out, "1 VMs") {
		t.Errorf("the tree: %s", out)
	}
}
