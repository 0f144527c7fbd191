package obs

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// get asks the server behind the Unix socket.
func get(t *testing.T, socket, path string) (int, string) {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get("http://daemon" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func serve(t *testing.T, socket string, h http.Handler) {
	t.Helper()
	l, err := Listen(t.Context(), "unix://"+socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- Serve(ctx, l, h) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestHandler(t *testing.T) {
	r, err := NewRegistry("v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	var health Health
	socket := filepath.Join(t.TempDir(), "s", "m.sock")
	serve(t, socket, Handler(r, &health))
	if code, _ := get(t, socket, "/healthz"); code != 200 {
		t.Errorf("/healthz: %d", code)
	}
	if code, _ := get(t, socket, "/readyz"); code != 503 {
		t.Errorf("/readyz before ready: %d", code)
	}
	health.SetReady(true)
	if code, _ := get(t, socket, "/readyz"); code != 200 {
		t.Errorf("/readyz: %d", code)
	}
	if code, body := get(t, socket, "/metrics"); code != 200 || !strings.Contains(body, `faasnet_build_info{go=`) || !strings.Contains(body, `version="v1.2.3"} 1`) || !strings.Contains(body, "process_open_fds") {
		t.Errorf("/metrics: %d %.300q", code, body)
	}
	if code, _ := get(t, socket, "/debug/pprof/"); code != 404 {
		t.Errorf("profiles are on the metrics address: %d", code)
	}
}

func TestProfiles(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "d.sock")
	serve(t, socket, Profiles())
	if code, body := get(t, socket, "/debug/pprof/goroutine?debug=1"); code != 200 || !strings.Contains(body, "goroutine profile") {
		t.Errorf("goroutine profile: %d %.100q", code, body)
	}
}

func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dir", "x.sock")
	first, err := Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(filepath.Dir(path)); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("directory of the socket: %v, %v", fi, err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", fi, err)
	}
	if l, err := Listen(t.Context(), path); err == nil {
		l.Close()
		t.Error("took the socket of a living process")
	}
	first.(*net.UnixListener).SetUnlinkOnClose(false) // as a kill leaves it
	first.Close()
	second, err := Listen(t.Context(), "unix://"+path)
	if err != nil {
		t.Fatalf("stale socket: %v", err)
	}
	second.Close()

	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := Listen(t.Context(), path); err == nil {
		l.Close()
		t.Error("replaced a regular file")
	}
	tcp, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tcp.Close()
}

func TestSetUpLog(t *testing.T) {
	if err := SetUpLog("loud", "text"); !errdefs.IsInvalidArgument(err) {
		t.Errorf("unknown level: %v", err)
	}
	if err := SetUpLog("info", "xml"); !errdefs.IsInvalidArgument(err) {
		t.Errorf("unknown format: %v", err)
	}
	if err := SetUpLog("info", "text"); err != nil {
		t.Error(err)
	}
}

func TestVersion(t *testing.T) {
	if v := Version("v9"); v != "v9" {
		t.Errorf("version %q", v)
	}
	if l := VersionLine("prog", ""); !strings.HasPrefix(l, "prog ") || len(strings.Fields(l)) != 4 {
		t.Errorf("line %q", l)
	}
}
