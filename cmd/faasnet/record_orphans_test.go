package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/leases"
	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

func TestIsOrphan(t *testing.T) {
	me, err := thisProcess()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	start, _, err := readStat(child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	other := process{child.Process.Pid, start}
	is := func(name string, want bool) {
		t.Helper()
		if got := isOrphan(name); got != want {
			t.Errorf("%s: orphan is %v, want %v", name, got, want)
		}
	}
	is(me.name("run"), false)
	is(other.name("run"), false)
	is(process{me.pid, me.start - 1}.name("run"), true) // its pid is used again
	for _, name := range []string{"faasnet-record-run-ABC", "faasnet-record-run-0-1-A", "faasnet-record-run-x-1-A", "mine", "faasnet-record-"} {
		is(name, false)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, other.pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	is(other.name("run"), true) // a zombie
	child.Wait()
	is(other.name("run"), true)
}

func TestRuntimeDirThatIsNotThere(t *testing.T) {
	if err := runtimeDir(filepath.Join(t.TempDir(), "none")).remove(); err != nil {
		t.Errorf("it is called left: %v", err)
	}
}

// startRecording starts a process that records a container which serves, and
// returns when it does.
func startRecording(t *testing.T, address, image, file string) (*exec.Cmd, *strings.Builder) {
	t.Helper()
	cmd := command(t, "record", "--address", address, "-o", file, image, "/bin/sh", "-c", "echo serving; busybox sleep 1000")
	return cmd, begun(t, cmd, "serving")
}

// TestRecordIsKilled: the next one removes what it leaves, and nothing of one that
// lives.
func TestRecordIsKilled(t *testing.T) {
	address := startContainerd(t, "/none")
	client := dial(t, address)
	const image = "docker.io/library/shell:1"
	shellImage(t, registrytest.New(t, registrytest.Options{}), client, image)
	file := filepath.Join(t.TempDir(), "record")
	cmd, _ := startRecording(t, address, image, file)
	pid := cmd.Process.Pid
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	cmd.Wait()

	cs, err := client.Containers(t.Context())
	if err != nil || len(cs) != 1 || !strings.HasPrefix(cs[0].ID(), fmt.Sprintf("faasnet-record-run-%d-", pid)) {
		t.Fatalf("containers are %v, %v, want one of process %d", cs, err, pid)
	}
	ls, err := client.LeasesService().List(t.Context())
	if err != nil || len(ls) != 1 {
		t.Fatalf("leases are %v, %v", ls, err)
	}
	expires, err := time.Parse(time.RFC3339, ls[0].Labels["containerd.io/gc.expire"])
	if err != nil || expires.Sub(ls[0].CreatedAt) > time.Minute+margin+time.Minute {
		t.Errorf("the lease of a minute's run lives until %v, %v", expires, err)
	}
	me, err := thisProcess()
	if err != nil {
		t.Fatal(err)
	}
	mine, err := client.LeasesService().Create(t.Context(), leases.WithID(me.name("lease")))
	if err != nil {
		t.Fatal(err)
	}

	_, stderr := faasnet(t, 0, "record", "--address", address, "-o", file, image, "/bin/busybox", "true")
	for _, what := range []string{"removed container " + cs[0].ID(), "removed lease " + ls[0].ID, "removed " + runtimeOf(t)} {
		if !strings.Contains(stderr, what) {
			t.Errorf("record says %q, want %q", stderr, what)
		}
	}
	if err := client.LeasesService().Delete(t.Context(), mine); err != nil {
		t.Errorf("what lives was removed: %v", err)
	}
	nothingRuns(t, client)
}

// TestContainerdIsKilled while something is recorded: the error says what is left,
// and with the next containerd it goes.
func TestContainerdIsKilled(t *testing.T) {
	address := startContainerd(t, "/none")
	client := dial(t, address)
	const image = "docker.io/library/shell:1"
	shellImage(t, registrytest.New(t, registrytest.Options{}), client, image)
	file := filepath.Join(t.TempDir(), "record")
	cmd, text := startRecording(t, address, image, file)
	if err := syscall.Kill(serverOf(t, address), syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != exitError {
		t.Errorf("process ended with %v", err)
	}
	_, last, _ := strings.Cut(text.String(), "faasnet: record ")
	for _, what := range []string{"container faasnet-record-run-", "snapshot faasnet-record-view-", "lease faasnet-record-lease-", "the next faasnet record in this namespace removes them\n"} {
		if !strings.Contains(last, what) || strings.Count(last, "\n") != 1 {
			t.Errorf("error is %q, want one line with %q", last, what)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a recording that failed has written a record")
	}
	noneLeft(t, runtimeOf(t))

	again := exec.Command("containerd", "--config", filepath.Join(filepath.Dir(address), "config.toml"))
	again.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := again.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		again.Process.Signal(syscall.SIGTERM)
		again.Wait()
	})
	client = dial(t, address)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if ok, err := client.IsServing(ctx); !ok {
		t.Fatalf("containerd does not serve: %v", err)
	}
	if _, stderr := faasnet(t, 0, "record", "--address", address, "-o", file, image, "/bin/busybox", "true"); !strings.Contains(stderr, "removed container ") {
		t.Errorf("record says %q", stderr)
	}
	nothingRuns(t, client)
}

// serverOf is the process that serves a socket.
func serverOf(t *testing.T, address string) int {
	t.Helper()
	conn, err := net.Dial("unix", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var cred *unix.Ucred
	if e := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); e != nil || err != nil {
		t.Fatal(e, err)
	}
	return int(cred.Pid)
}
