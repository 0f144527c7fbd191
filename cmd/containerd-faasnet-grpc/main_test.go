package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/core/snapshots/proxy"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthapi "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/faasnet/faasnet/fs/mounttest"
)

// asDaemon makes this test binary the daemon, so that it can be killed.
const asDaemon = "FAASNET_TEST_AS_DAEMON"

func TestMain(m *testing.M) {
	if os.Getenv(asDaemon) != "" {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(mounttest.Guard(m).Run())
}

// process is one daemon.
type process struct {
	*exec.Cmd
	log    bytes.Buffer
	exited chan struct{}
}

func startProcess(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0], args...), exited: make(chan struct{})}
	p.Env = append(append(os.Environ(), asDaemon+"=1"), env...)
	p.Stdout, p.Stderr = &p.log, &p.log
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.Wait(); close(p.exited) }()
	t.Cleanup(func() {
		p.Process.Kill()
		<-p.exited
		if t.Failed() {
			t.Logf("log of the daemon:\n%s", &p.log)
		}
	})
	return p
}

// end sends a signal and returns the exit code.
func (p *process) end(t *testing.T, sig syscall.Signal) int {
	t.Helper()
	if err := p.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.exited:
	case <-time.After(60 * time.Second):
		t.Fatalf("%v does not end the daemon", sig)
	}
	return p.ProcessState.ExitCode()
}

// files is where one daemon lives.
type files struct{ address, root, config string }

func newFiles(t *testing.T, config string) files {
	t.Helper()
	dir := t.TempDir()
	f := files{filepath.Join(dir, "run", "d.sock"), filepath.Join(dir, "root"), filepath.Join(dir, "config.toml")}
	if err := os.WriteFile(f.config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f files) args() []string {
	return []string{"-address", f.address, "-root", f.root, "-config", f.config, "-log-level", "debug"}
}

// connect waits until the daemon serves.
func (f files) connect(t *testing.T) (*grpc.ClientConn, snapshots.Snapshotter) {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+f.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	h, err := healthapi.NewHealthClient(conn).Check(ctx, &healthapi.HealthCheckRequest{}, grpc.WaitForReady(true))
	if err != nil || h.Status != healthapi.HealthCheckResponse_SERVING {
		t.Fatalf("health: %v, %v", h, err)
	}
	return conn, proxy.NewSnapshotter(snapshotsapi.NewSnapshotsClient(conn), "faasnet")
}

func TestServesAndStops(t *testing.T) {
	f := newFiles(t, "")
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := startProcess(t, nil, f.args()...)
		_, sn := f.connect(t)
		key := fmt.Sprint("container-", int(sig))
		if _, err := sn.Prepare(t.Context(), key, ""); err != nil {
			t.Fatal(err)
		}
		if code := p.end(t, sig); code != exitOK {
			t.Errorf("exit code after %v: %d", sig, code)
		}
		if _, err := os.Stat(f.address); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("socket after %v: %v", sig, err)
		}
	}
	p := startProcess(t, nil, f.args()...)
	_, sn := f.connect(t)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		key := fmt.Sprint("container-", int(sig))
		mounts, err := sn.Mounts(t.Context(), key)
		if err != nil || len(mounts) != 1 {
			t.Errorf("RR-03 snapshot made before %v: %v, %v", sig, mounts, err)
		}
	}
	if fi, err := os.Stat(filepath.Dir(f.address)); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("directory of the socket: %v, %v", fi, err)
	}

	// A kill leaves the socket behind.
	if code := p.end(t, syscall.SIGKILL); code == exitOK {
		t.Error("kill ended well")
	}
	if _, err := os.Stat(f.address); err != nil {
		t.Fatalf("socket after a kill: %v", err)
	}
	p = startProcess(t, nil, f.args()...)
	f.connect(t)
	second := startProcess(t, nil, "-address", f.address+"2", "-root", f.root, "-config", f.config)
	<-second.exited
	if code := second.ProcessState.ExitCode(); code != exitFailed {
		t.Errorf("a second daemon on the same root: exit code %d", code)
	}
	if code := p.end(t, syscall.SIGTERM); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

func TestRR04_NotifiesSystemd(t *testing.T) {
	f := newFiles(t, "")
	socket := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.SetReadDeadline(time.Now().Add(60 * time.Second)); err != nil {
		t.Fatal(err)
	}
	heard := func() string {
		buf := make([]byte, 100)
		n, err := l.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n])
	}
	p := startProcess(t, []string{"NOTIFY_SOCKET=" + socket}, f.args()...)
	if s := heard(); s != "READY=1" {
		t.Errorf("systemd heard %q", s)
	}
	f.connect(t)
	p.end(t, syscall.SIGTERM)
	if s := heard(); s != "STOPPING=1" {
		t.Errorf("systemd heard %q", s)
	}
}

func TestMetricsAddress(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that is free
	if err != nil {
		t.Fatal(err)
	}
	relay := l.Addr().String()
	l.Close()
	f := newFiles(t, fmt.Sprintf("metrics_address = %q\ndebug_address = %q\n[tree]\nenabled = true\ncoordinators = [\"127.0.0.1:1\"]\n[peer]\naddress = %q\n",
		dir+"/m.sock", dir+"/d.sock", relay))
	p := startProcess(t, nil, f.args()...)
	_, sn := f.connect(t)
	// The key and label of a layer that is to be unpacked.
	if _, err := sn.Prepare(t.Context(), "extract", "", snapshots.WithLabels(map[string]string{snapshots.LabelSnapshotRef: "sha256:0"})); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"m.sock /readyz": "ok", "m.sock /healthz": "ok", "d.sock /debug/pprof/": "goroutine"} {
		socket, url, _ := strings.Cut(path, " ")
		if page := get(t, filepath.Join(dir, socket), url); !strings.Contains(page, want) {
			t.Errorf("%s: %.200q, want %q", path, page, want)
		}
	}
	docs, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	page := get(t, dir+"/m.sock", "/metrics")
	documented := regexp.MustCompile("(?m)^\\| `(faasnet_[a-z_]+)`").FindAllStringSubmatch(string(docs), -1)
	for _, m := range documented {
		if !strings.Contains(page, "# TYPE "+m[1]+" ") {
			t.Errorf("documented metric %s does not exist", m[1])
		}
	}
	operations, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?m)^# TYPE (faasnet_[a-z_]+) ").FindAllStringSubmatch(page, -1) {
		if !strings.Contains(string(operations), "`"+m[1]+"`") {
			t.Errorf("%s is not in operations.md", m[1])
		}
	}
	p.end(t, syscall.SIGTERM)
}

func get(t *testing.T, socket, url string) string {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s HTTP/1.0\r\n\r\n", url)
	var answer bytes.Buffer
	if _, err := answer.ReadFrom(conn); err != nil || !strings.HasPrefix(answer.String(), "HTTP/1.0 200") {
		t.Errorf("%s: %.200q, %v", url, &answer, err)
	}
	return answer.String()
}

func TestCommandLine(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "no.toml")
	broken := newFiles(t, "no_such_key = 1")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-version"}, exitOK, program + " "},
		{[]string{"--version"}, exitOK, program + " "},
		{[]string{"-config", missing}, exitUsage, missing},
		{[]string{"-config", broken.config}, exitUsage, "no_such_key"},
		{[]string{"-config", newFiles(t, "").config, "-log-level", "loud"}, exitUsage, "loud"},
		{[]string{"-no-such-flag"}, exitUsage, "no-such-flag"},
		{[]string{"argument"}, exitUsage, "argument"},
		{[]string{"-config", newFiles(t, "").config, "-root", "/tmp/a:b"}, exitUsage, "/tmp/a:b"},
	} {
		var out bytes.Buffer
		if code := run(c.args, &out, &out); code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%v: exit code %d, %q, want %d, %q", c.args, code, &out, c.code, c.want)
		}
	}
}
