// Package etcdtest runs a real etcd for tests.
package etcdtest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Etcd is one etcd process on loopback. It ends with the test.
type Etcd struct {
	Endpoint string

	t    testing.TB
	dir  string
	peer string
	cmd  *exec.Cmd
}

// Start runs etcd on a data directory of its own and waits until it serves.
func Start(t testing.TB) *Etcd {
	t.Helper()
	e := &Etcd{Endpoint: "http://" + freeAddress(t), peer: "http://" + freeAddress(t), t: t, dir: t.TempDir()}
	t.Cleanup(e.Kill)
	e.Run()
	return e
}

func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Run starts it again after Kill, with the data that it had.
func (e *Etcd) Run() {
	e.t.Helper()
	log, err := os.OpenFile(filepath.Join(e.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		e.t.Fatal(err)
	}
	defer log.Close()
	e.cmd = exec.CommandContext(context.WithoutCancel(e.t.Context()), "etcd", "--data-dir", filepath.Join(e.dir, "data"), "--name", "test", "--logger", "zap",
		"--listen-client-urls", e.Endpoint, "--advertise-client-urls", e.Endpoint,
		"--listen-peer-urls", e.peer, "--initial-advertise-peer-urls", e.peer, "--initial-cluster", "test="+e.peer)
	e.cmd.Stdout, e.cmd.Stderr = log, log
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := e.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); !e.healthy(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			out, err := os.ReadFile(log.Name())
			e.t.Fatalf("etcd does not serve: %s %v", out, err)
		}
	}
}

func (e *Etcd) healthy() bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.Endpoint+"/health", nil)
	if err != nil {
		return false
	}
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return false
	}
	res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// Kill kills it. Again is nothing.
func (e *Etcd) Kill() {
	if e.cmd == nil {
		return
	}
	_ = e.cmd.Process.Kill() // it may have ended
	_ = e.cmd.Wait()
	e.cmd = nil
}

// Freeze stops its process, and Thaw lets it go on.
func (e *Etcd) Freeze() { e.signal(syscall.SIGSTOP) }

// Thaw lets it go on.
func (e *Etcd) Thaw() { e.signal(syscall.SIGCONT) }

func (e *Etcd) signal(s syscall.Signal) {
	e.t.Helper()
	if err := e.cmd.Process.Signal(s); err != nil {
		e.t.Fatal(fmt.Errorf("signal to etcd: %w", err))
	}
}
